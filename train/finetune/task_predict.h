// What a fine-tuned model says about examples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/finetune/task_settings.h"

namespace nystrom {

/// Characters of a text.
struct CharacterRange {
  std::int64_t start = 0, end = 0;
};

/// One thing that a model says, and how probable it is.
struct Guess {
  std::string label;  ///< a label, the type of an entity, or the text of an answer or a choice;
                      ///< empty: there is no answer
  double score = 0;
  std::string word{};                     ///< entities and words: the text that is labelled
  std::optional<CharacterRange> place{};  ///< of entities and answers in the text
};

/// What a model says about one example: a value, or guesses: labels, answers and choices the most
/// probable first, entities and words in the order of the text.
struct Prediction {
  std::optional<double> value;
  std::vector<Guess> guesses;
};

/// Predictions in the order of the examples, and what encoding made of these: some may be cut.
struct Predictions {
  std::vector<Prediction> all;
  EncodingCounts counts;
};

/// Predictions for examples. Labels that they have are not looked at. `top_k`: most guesses of
/// labels, answers and choices.
Predictions predict_examples(const TaskModel& task, const std::vector<Example>& examples,
                             std::int64_t batch_size, std::int64_t top_k);
/// The same for a file of features.
Predictions predict_features(const TaskModel& task, const std::vector<std::string>& files,
                             std::int64_t batch_size, std::int64_t top_k);

/// One JSON value, with the fields of Hugging Face's pipelines: a list of {label, score}; {value};
/// a list of {entity_group, score, word, start, end}, or of {label, score, word} where labels are
/// no entities; a list of {answer, score, start, end}; a list of {choice, score}.
std::string prediction_json(const TaskModel& task, const Prediction& prediction);

}  // namespace nystrom
