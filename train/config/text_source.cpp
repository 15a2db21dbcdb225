#include "train/config/text_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "train/config/yaml.h"

namespace nystrom {
namespace {

constexpr const char* name_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

/// The smallest share of a source among the weights of all.
constexpr double least_source_share = 1e-6;

bool has_name(const TextSource& source) { return !source.name.empty(); }

void check_names(const std::string& option, const std::vector<TextSource>& entries,
                 Problems& found) {
  const auto report = [&](std::size_t i, const std::string& message) {
    add_problem(found, {option}, "{}[{}]: {}", option, i, message);
  };
  const bool any_name = std::ranges::any_of(entries, has_name);
  std::set<std::string> names;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [files, name, weight] = entries[i];
    if (files.empty())
      report(i, "files is empty; name the source's text files, such as [corpus/*.txt]");
    else if (name.empty() && (any_name || !entries[i].as_text()))
      report(i, "has no name; give each source files and a name, or list files alone");
    else if (name.find_first_not_of(name_letters) != std::string::npos)
      report(i, fmt::format("name: got {}, expected letters, digits, '-' and '_'",
                            quote_for_message(name)));
    else if (any_name && !names.insert(name).second)
      report(i, fmt::format("name {} is that of an earlier source; choose another", name));
  }
}

void check_weights(const std::vector<TextSource>& train, Problems& found) {
  const auto weighted = std::ranges::count_if(
      train, [](const TextSource& source) { return source.weight.has_value(); });
  if (weighted == 0) return;
  if (weighted < std::ssize(train))
    return add_problem(found, {"data.train"},
                       "data.train: some sources have a weight and some have none; give one to "
                       "each, or to none");
  double sum = 0;
  for (const TextSource& source : train) sum += *source.weight;
  for (const TextSource& source : train) {
    if (*source.weight >= least_source_share * sum) continue;
    add_problem(found, {"data.train"},
                "data.train: weight {} of {} is less than {} of all weights, {}; raise it, or "
                "leave the source out",
                *source.weight, source.name, least_source_share, sum);
  }
}

}  // namespace

std::vector<TextSource> sources_of(const std::vector<TextSource>& entries) {
  if (entries.empty() || std::ranges::any_of(entries, has_name)) return entries;
  return {{.files = patterns_of(entries)}};
}

std::vector<std::string> patterns_of(const std::vector<TextSource>& entries) {
  std::vector<std::string> patterns;
  for (const TextSource& entry : entries)
    patterns.insert(patterns.end(), entry.files.begin(), entry.files.end());
  return patterns;
}

Problems source_problems(const std::vector<TextSource>& train,
                         const std::vector<TextSource>& validation) {
  Problems found;
  check_names("data.train", train, found);
  check_names("data.validation", validation, found);
  if (found.empty()) check_weights(train, found);
  if (std::ranges::any_of(validation, [](const TextSource& s) { return s.weight.has_value(); }))
    add_problem(found, {"data.validation"},
                "data.validation: a weight is for data.train alone; every validation text is "
                "evaluated once");
  return found;
}

}  // namespace nystrom
