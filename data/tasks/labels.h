// The labels of a task, in the order of the model's outputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tasks/task_config.h"

namespace nystrom {

class LabelSet {
 public:
  LabelSet() = default;
  /// InputError for an empty label or one that is there twice.
  explicit LabelSet(std::vector<std::string> names);

  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  /// Error for an index outside the set.
  const std::string& name(std::int64_t index) const;
  /// −1 when unknown.
  std::int64_t find(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t> index_;
};

/// "labels are 'entailment', 'neutral' and 'contradiction'", the first 20 of more; for messages.
std::string describe(const LabelSet& labels);

/// "0" … "count − 1".
LabelSet numbered_labels(std::int64_t count);

/// Labels that are equal but for white space around them, upper and lower case, and Unicode's
/// compatible forms: each with the first that it is like.
std::vector<std::pair<std::string, std::string>> labels_alike(
    const std::vector<std::string>& names);

/// The labels of a resolved task: task.labels, or else those that occur in the training files (of
/// words for tokens), sorted as numbers if all are whole numbers and by bytes otherwise. Reads the
/// files through. InputError when there are fewer than two, or more than 10 000: then the column
/// holds something else; and when no row can be read. Empty for kinds without labels and for
/// features, whose files number their classes.
LabelSet task_labels(const TaskConfig& task);

}  // namespace nystrom
