#include "data/tasks/labels.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include <utf8proc.h>

#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/examples.h"
#include "data/tasks/word_cut.h"

namespace nystrom {
namespace {

constexpr std::size_t max_labels = 10000, max_named = 20;

/// A label in lower case and Unicode's form NFKC, without white space around it and without
/// characters that have no width.
std::string folded(const std::string& name) {
  const std::string_view inner = trimmed(name);
  constexpr auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | UTF8PROC_IGNORE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
  utf8proc_uint8_t* result = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(inner.data()),
                                 static_cast<utf8proc_ssize_t>(inner.size()), &result, options);
  if (size < 0) return name;  // not UTF-8, as labels from memory may be
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, &std::free);
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

}  // namespace

bool is_indicator(std::string_view text) {
  constexpr std::string_view words[] = {"0",     "1",    "0.0",   "1.0",  "true",
                                        "false", "True", "False", "TRUE", "FALSE"};
  return std::ranges::find(words, text) != std::ranges::end(words);
}

LabelSet::LabelSet(std::vector<std::string> names) : names_(std::move(names)) {
  for (const std::string& name : names_) {
    require_input(!name.empty(), "labels: one is empty");
    require_input(index_.emplace(name, static_cast<std::int64_t>(index_.size())).second,
                  "labels: '{}' is there twice", printable(name));
  }
}

const std::string& LabelSet::name(std::int64_t index) const {
  require(index >= 0 && index < size(), "labels: {} of {}", index, size());
  return names_[static_cast<std::size_t>(index)];
}

std::int64_t LabelSet::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? -1 : found->second;
}

std::string describe(const LabelSet& labels) {
  std::string text = "labels are ";
  for (std::size_t i = 0; i < std::min(labels.names().size(), max_named); ++i) {
    if (i > 0) text += i + 1 == labels.names().size() ? " and " : ", ";
    text += "'" + printable(labels.names()[i]) + "'";
  }
  if (labels.names().size() > max_named)
    text += fmt::format(" and {} more", labels.names().size() - max_named);
  return text;
}

LabelSet sorted_labels(const std::set<std::string>& names) {
  std::vector<std::string> sorted(names.begin(), names.end());
  const auto is_number = [](const std::string& name) {
    return std::isfinite(signed_number_of(name).value_or(NAN));
  };
  if (std::ranges::all_of(sorted, is_number))
    std::ranges::stable_sort(sorted, {}, signed_number_of<double>);
  return LabelSet(std::move(sorted));
}

LabelSet numbered_labels(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return LabelSet(std::move(names));
}

std::vector<std::pair<std::string, std::string>> labels_alike(
    const std::vector<std::string>& names) {
  std::map<std::string, std::string> known;
  std::vector<std::pair<std::string, std::string>> alike;
  for (const std::string& name : names) {
    const auto number = number_of<double>(folded(name));
    const bool exact = number && std::abs(*number) < 9007199254740992;  // 2^53
    const auto [first, added] =
        known.emplace(exact ? fmt::format("{}", *number + 0.0) : folded(name), name);  // -0 is 0
    if (!added) alike.emplace_back(first->second, name);
  }
  return alike;
}

LabelSet task_labels(const TaskConfig& task) {
  if (!has_labels(*task.kind)) return {};
  if (!task.labels.empty()) return LabelSet(task.labels);
  std::set<std::string> names;
  // Whether lists of labels hold 0 and 1 for each label, as other programs take them. Read as
  // labels they would name only these two.
  bool indicators = *task.multi_label;
  std::size_t length = 0;  // of such lists
  SkippedRows skipped;
  for_each_example(task, task.train, Labelled::required, skipped, [&](const Example& example) {
    if (example.label) names.insert(*example.label);
    names.insert(example.labels.begin(), example.labels.end());
    if (length == 0) length = example.labels.size();
    indicators &= example.labels.empty() || (example.labels.size() == length && length > 1 &&
                                             std::ranges::all_of(example.labels, is_indicator));
    require_input(names.size() <= max_labels,
                  "{}: more than {} different labels; task.columns.label names something else, or "
                  "the task is a regression",
                  example.place(), max_labels);
  });
  require_input(!names.empty() || skipped.count == 0, "{}",
                describe_unreadable(task.train, skipped));
  require_input(!task.multi_label.value_or(false) || !names.empty(),
                "{}: no text has a label; there is nothing to learn: name them in task.labels",
                fmt::join(task.train, ", "));
  require_input(!indicators || length == 0, "{}: {}", fmt::join(task.train, ", "),
                why_no_indicators);
  require_input(
      names.size() >= 2 || *task.multi_label,
      "{}: all labels are '{}'; there is nothing to learn: name the others in task.labels",
      fmt::join(task.train, ", "), names.empty() ? "" : printable(*names.begin()));
  return sorted_labels(names);
}

}  // namespace nystrom
