#include "data/tasks/listops.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/checksum.h"
#include "core/base/interruption.h"
#include "core/check.h"
#include "core/rng.h"

namespace nystrom {
namespace {

enum class Operator { min, max, med, sm };
constexpr std::string_view operators[] = {"[MIN", "[MAX", "[MED", "[SM"};
constexpr std::int64_t digits = 10;

int median(std::vector<int> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

int value_of(Operator op, const std::vector<int>& values) {
  switch (op) {
    case Operator::min: return *std::ranges::min_element(values);
    case Operator::max: return *std::ranges::max_element(values);
    case Operator::med: return median(values);
    case Operator::sm:
      return std::accumulate(values.begin(), values.end(), 0) % static_cast<int>(digits);
  }
  return 0;
}

}  // namespace

ListOpsGenerator::ListOpsGenerator(const ListOpsOptions& options) : options_(options) {
  constexpr std::int64_t most = 1000;  // nested calls, and arguments that are drawn to be refused
  require_input(options.max_depth >= 1, "max_depth {} must be at least 1", options.max_depth);
  require_input(options.max_arguments >= 2, "max_arguments {} must be at least 2",
                options.max_arguments);
  require_input(options.max_depth <= most && options.max_arguments <= most,
                "max_depth {} and max_arguments {} must be at most {}", options.max_depth,
                options.max_arguments, most);
  require_input(options.min_length >= 0 && options.max_length > options.min_length + 1,
                "no expression is longer than {} and shorter than {} symbols", options.min_length,
                options.max_length);
}

std::int64_t ListOpsGenerator::draw(std::int64_t choices) {
  const PhiloxBlock block = philox(
      philox_key(static_cast<std::uint64_t>(options_.seed), 0x6c6973746f7073ull),
      {{static_cast<std::uint32_t>(drawn_), static_cast<std::uint32_t>(drawn_ >> 32), 0, 0}});
  ++drawn_;
  return static_cast<std::int64_t>(block.word[0] * static_cast<std::uint64_t>(choices) >> 32);
}

int ListOpsGenerator::grow(std::int64_t depth, std::string& source, std::int64_t& length) {
  constexpr std::int64_t one_list_of = 4;
  if (depth == options_.max_depth || draw(one_list_of) != 0) {
    const auto digit = static_cast<int>(draw(digits));
    source += static_cast<char>('0' + digit);
    return ++length < options_.max_length ? digit : -1;
  }
  const std::int64_t arguments = 2 + draw(options_.max_arguments - 1);
  const auto op = static_cast<std::size_t>(draw(std::ssize(operators)));
  length += 2;
  // One parenthesis encloses the operator and its first argument, one encloses that and the second,
  // and so on. The last one encloses all and the ].
  for (std::int64_t i = 0; i <= arguments; ++i) source += "( ";
  source += operators[op];
  std::vector<int> values;
  for (std::int64_t i = 0; i < arguments; ++i) {
    source += ' ';
    values.push_back(grow(depth + 1, source, length));
    if (values.back() < 0) return -1;
    source += " )";
  }
  source += " ] )";
  return length < options_.max_length ? value_of(static_cast<Operator>(op), values) : -1;
}

ListOpsSample ListOpsGenerator::next() {
  constexpr int max_attempts = 1'000'000;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    check_interruption();
    std::string source;
    std::int64_t length = 0;
    const int target = grow(1, source, length);
    if (target < 0 || length <= options_.min_length ||
        !digests_.insert(text_checksum(source)).second)
      continue;
    return {std::move(source), target};
  }
  throw InputError(
      fmt::format("of {} expressions none is new, longer than {} and shorter than {} symbols; ask "
                  "for fewer samples or other lengths",
                  max_attempts, options_.min_length, options_.max_length));
}

}  // namespace nystrom
