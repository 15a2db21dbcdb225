// Tables that name feature files, one a bag (data/tasks/feature_file.h), and parts of their rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/tasks/examples.h"
#include "data/tasks/labels.h"

namespace nystrom {

/// A row of a table.
struct Bag {
  std::string place;           ///< "slides.csv:17", for messages
  std::string id;              ///< the cell of task.columns.id, else that of the file
  std::filesystem::path file;  ///< where the features are
  std::optional<std::string> label;
  std::optional<double> value;
  std::string group;  ///< the cell of task.columns.group, else of task.columns.id beside a file
  double weight = 1;
};

/// The examples of a task's parts.
struct BagParts {
  std::vector<Bag> train, validation, test;  ///< test may be empty
  std::vector<std::string> notes;            ///< what a user should know of them, a sentence each
};

/// Whether the files that `patterns` match hold rows of bags: their form is that of a table.
bool are_bag_tables(const TaskConfig& task, const std::vector<std::string>& patterns);
/// Whether task.train names such tables, or for Labelled::for_parts whether each file of the task
/// is a bag itself: none needs a label.
bool hold_bags(const TaskConfig& task, Labelled labelled);
/// Whether the model of a task learned bags of tables, and reads every row of a file.
bool learned_bags(const TaskConfig& task);

/// A row for each file, which is its id.
std::vector<Bag> bags_of_files(const std::vector<std::filesystem::path>& files);

/// Reads tables, with the columns of the resolved `task`, or what hold_bags says. Throws an
/// InputError "file:line: …" for a bad row, for features that are not there, and for a file that
/// two rows name.
std::vector<Bag> read_bags(const TaskConfig& task, const std::vector<std::string>& patterns,
                           Labelled labelled);

/// The parts of the tables task.train and task.validation, or of task.train alone as task.splits,
/// task.folds or, by the seed, task.validation_fraction (task_sources in data/tasks/examples.h)
/// say. Throws an InputError when two parts share a file or a group, when a part is empty, and for
/// a wrong split.
BagParts part_bags(const TaskConfig& task, std::int64_t seed,
                   Labelled labelled = Labelled::required);

/// Throws an InputError if a file is one bag, or the model learned bags: a table must give labels.
void refuse_single_bag(const TaskConfig& task, const std::filesystem::path& file);

/// The width of the features of the first file of task.train, or of the first bag of a table;
/// nothing without files. Throws the InputErrors of those who read them.
std::optional<std::int64_t> feature_width(const TaskConfig& task);

/// The labels of bags: task.labels, or all that occur, sorted like those of texts. Throws an
/// InputError for fewer than two. Empty if the bags have numbers to predict.
LabelSet bag_labels(const TaskConfig& task, const BagParts& parts);

}  // namespace nystrom
