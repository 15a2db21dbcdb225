// Predictions of a fine-tuned model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/tasks/answers.h"
#include "train/objectives/task_settings.h"

namespace nystrom {

/// A range of characters in a text, in code points; `end` is exclusive.
struct CharacterRange {
  std::int64_t start = 0, end = 0;
};

/// A predicted label, entity, answer or choice, and its probability.
struct Guess {
  /// A label, the type of an entity, or the text of an answer or a choice. Empty: no answer.
  std::string label;
  double score = 0;                       ///< the probability, from 0 to 1
  std::string word{};                     ///< the labelled text, for entities and words
  std::optional<CharacterRange> place{};  ///< the place in the text, for entities and answers
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
  std::vector<std::string> names{};  ///< features: of the samples
  bool bags = false;                 ///< whether the samples are bags
};

/// The texts of an example that comes from no file.
struct GivenTexts {
  std::string text;
  std::optional<std::string> pair{};  ///< the second text, or the one that answers a question
  std::vector<std::string> choices{};
};

/// An example of `task`, which is resolved. `described`: see is_task_described. Throws an
/// InputError if the task needs a text that is missing, or has no use for one. The message names
/// the options of the command line.
Example example_of(const TaskConfig& task, bool described, GivenTexts texts);

/// Which guesses a prediction has.
struct GuessLimits {
  /// The most labels, answers or choices.
  std::int64_t top_k = default_answers;
  /// With task.multi_label, the probability from which a text has a label, in the place of top_k.
  /// Nothing: task.threshold.
  std::optional<double> threshold{};
};

/// Predicts examples in batches of `batch_size` and ignores their labels. Throws an InputError for
/// an invalid example.
Predictions predict_examples(const TaskModel& task, const std::vector<Example>& examples,
                             std::int64_t batch_size, const GuessLimits& limits);
/// Does the same for the samples in files of features.
Predictions predict_features(const TaskModel& task, const std::vector<std::string>& files,
                             std::int64_t batch_size, const GuessLimits& limits);

/// A prediction as JSON, with the fields of Hugging Face's pipelines. A value is {value}. All
/// others are lists. Items are {label, score} for classes, {answer, score, start, end} for
/// questions and {choice, score} for choices. Entities are {entity_group, score, word, start, end};
/// labels that are not entity tags are {label, score, word}.
std::string prediction_json(const TaskModel& task, const Prediction& prediction);

}  // namespace nystrom
