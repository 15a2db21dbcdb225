// Predictions of a fine-tuned model.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/word_cut.h"
#include "train/objectives/task_settings.h"

namespace nystrom {

/// A predicted label, entity, answer or choice, and its probability.
struct Guess {
  /// A label, the type of an entity, or the text of an answer or a choice. Empty: no answer; of a
  /// word beyond the model's length, or without a token, no label.
  std::string label;
  double score = 0;       ///< the probability, from 0 to 1
  std::string word{};     ///< the labelled text, for entities and words
  std::size_t index = 0;  ///< of a word or a choice: its number in the example
  /// For entities and answers: the place in the text, in code points.
  std::optional<TextRange> place{};
};

/// The prediction for one example: a value or guesses. Labels, answers and choices are sorted by
/// probability, highest first. Where a text has any number of labels they may be none. Entities and
/// words are in the order of the text.
struct Prediction {
  std::optional<double> value;
  std::vector<Guess> guesses;
};

/// The predictions in the order of the examples, and the counts of encoded and truncated examples.
struct Predictions {
  std::vector<Prediction> all;
  EncodingCounts counts;
};

/// How a model predicts.
struct PredictionOptions {
  std::int64_t batch_size, top_k;  ///< top_k: most labels, answers or choices of a prediction
  /// With task.multi_label: the probability from which a label is predicted; nothing:
  /// task.threshold.
  std::optional<double> threshold = {};
  bool entities = true;  ///< false: words with entity tags have their labels, as other words have
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  ///< samples of a data set
};

/// An example of `task`, which is resolved, from texts that come from no file: text, or its words,
/// pair (the second text, or the one that answers a question) and choices of `given`. `described`:
/// see is_task_described. Throws an InputError if the task needs a text that is missing, or has no
/// use for one. The message names the options of the command line.
Example example_of(const TaskConfig& task, bool described, Example given);

/// Predicts the first samples of a data set, whose labels are ignored.
Predictions predict(const TaskModel& task, const std::shared_ptr<const TaskDataset>& dataset,
                    const PredictionOptions& options);
/// Predicts examples of texts. Throws an InputError for an invalid example.
Predictions predict(const TaskModel& task, const std::vector<Example>& examples,
                    const PredictionOptions& options);

/// A prediction as JSON, with the fields of Hugging Face's pipelines. A value is {value}. All
/// others are lists. Items are {label, score} for classes, {answer, score, start, end} for
/// questions and {choice, score} for choices. Entities are {entity_group, score, word, start, end};
/// labels that are not entity tags are {label, score, word} for every word, with null for label and
/// score of a word that has none.
std::string prediction_json(const TaskModel& task, const Prediction& prediction);

/// Writes the score of each row of the bag `file` (attention_map in nn/attention_map.h) into the
/// HDF5 file `output`: `attention` [rows] and, if the bag has them, `coords` [rows, columns]. Then
/// a PNG file beside it shows the scores at their first two coordinates: blue for the lowest, red
/// for the highest rank. Throws an InputError for a model without such scores, for what is no bag,
/// when `output` does not end in .h5, and when anything but an earlier map and its picture would be
/// replaced.
void write_attention(const TaskModel& task, const std::string& file,
                     const std::filesystem::path& output, Log& log);

}  // namespace nystrom
