// The labels of a task, in the order of the model's outputs.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tasks/task_config.h"

namespace nystrom {

/// An ordered set of labels.
class LabelSet {
 public:
  LabelSet() = default;
  /// Throws an InputError for an empty or duplicate label.
  explicit LabelSet(std::vector<std::string> names);

  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  /// All labels in order.
  const std::vector<std::string>& names() const { return names_; }
  /// The label at `index`. Throws an Error for an index outside the set.
  const std::string& name(std::int64_t index) const;
  /// The index of a label; −1 if unknown.
  std::int64_t find(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t> index_;
};

/// Whether a label says 0 or 1, as entries of lists do in which each label has its place.
bool is_indicator(std::string_view text);
/// For messages about such lists.
inline constexpr const char* why_no_indicators =
    "the lists hold 0 and 1 for each label; a list names the labels of its text: give their names, "
    "or a column of 0 and 1 for each label (task.columns.labels)";

/// "labels are 'entailment', 'neutral' and 'contradiction'", for messages. At most 20 are listed.
std::string describe(const LabelSet& labels);

/// The labels "0" … "count − 1".
LabelSet numbered_labels(std::int64_t count);

/// Labels as a model has them: sorted as numbers if all are finite numbers, and by bytes otherwise.
LabelSet sorted_labels(const std::set<std::string>& names);

/// Pairs of labels that are equal except for white space around them, case, Unicode's compatible
/// forms, and the form of a number (1 and 1.0). Each label comes with the first one that it equals.
std::vector<std::pair<std::string, std::string>> labels_alike(
    const std::vector<std::string>& names);

/// The labels of a resolved task: task.labels, or those in the training files (for tokens the
/// words' labels) as sorted_labels. All files are read. Throws an InputError for fewer than two
/// labels, and when no row can be read. More than 10 000 labels are an InputError too: the column
/// then holds something else. Empty for kinds without labels, and for features, whose files number
/// their classes.
LabelSet task_labels(const TaskConfig& task);

}  // namespace nystrom
