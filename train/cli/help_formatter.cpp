#include "train/cli/help.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "core/check.h"

namespace nystrom {
namespace {

/// A range as CLI11 writes it into the name of a type: "INT:INT in [1 - 64]".
struct ShownRange {
  std::string lower, upper;
};
std::optional<ShownRange> range_of(const std::string& type) {
  const std::size_t begin = type.find(" in ["), dash = type.find(" - ", begin);
  const std::size_t end = type.find(']', dash);
  if (begin == type.npos || dash == type.npos || end == type.npos) return std::nullopt;
  return ShownRange{type.substr(begin + 5, dash - begin - 5),
                    type.substr(dash + 3, end - dash - 3)};
}

/// "1 to 64"; "at least 1" where the upper bound only guards against overflow.
std::string text_of(const ShownRange& range) {
  constexpr double practical = 1e6;
  std::istringstream number(range.upper);
  double upper = 0;
  return number >> upper && upper >= practical ? "at least " + range.lower
                                               : range.lower + " to " + range.upper;
}

}  // namespace

HelpFormatter::HelpFormatter() { column_width(28); }

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0 || option->get_items_expected_max() == 0) return "";
  const std::string type = option->get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}');
  std::string words = type.substr(0, type.find(':'));
  if (begin != type.npos && end != type.npos) {
    words = type.substr(begin + 1, end - begin - 1);
    std::replace(words.begin(), words.end(), ',', '|');
  } else if (words == "INT" || words == "UINT") {
    words = "N";
  } else if (words == "FLOAT" || words == "POSITIVE" || words == "NUMBER") {
    words = "X";
  }
  if (option->get_lnames().empty() && words == "TEXT") words.clear();  // a name says it
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return (words.empty() ? "" : " " + words) + (many && option->get_lnames().empty() ? " …" : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::vector<std::string> notes;
  if (const auto range = range_of(option->get_type_name())) notes.push_back(text_of(*range));
  if (!option->get_default_str().empty()) notes.push_back("default " + option->get_default_str());
  if (option->get_required()) notes.emplace_back("required");
  const std::string text = option->get_description();
  return notes.empty() ? text : fmt::format("{} ({})", text, fmt::join(notes, "; "));
}

}  // namespace nystrom
