// Answers to questions, from the model's scores of windows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tasks/encoder.h"

namespace nystrom {

/// The model's output for one window: the scores of each position of its row to be the first and
/// the last token of the answer. Padding may follow.
struct WindowScores {
  const EncodedSample* window = nullptr;
  std::span<const double> start, end;
};

/// The options of best_answers.
struct AnswerOptions {
  /// The number of candidates: the best starts and ends of each window, and the best of their pairs
  /// over all windows.
  std::int64_t best = 20;
  std::int64_t max_answer_length = 30;  ///< in tokens
  bool no_answer = false;               ///< whether "no answer" is a candidate
  /// Answers rank before "no answer" if their score plus this is at least its score.
  double no_answer_threshold = 0;
};

/// A candidate answer.
struct PredictedAnswer {
  /// A part of the context, without white space at its ends. Empty: there is no answer.
  std::string text;
  TextRange place;   ///< position in the context
  double score = 0;  ///< score of the first token plus that of the last
  /// As in transformers' pipeline: the probability of the first token times that of the last, each
  /// among cls and the context's tokens in a window. Those of equal texts are added. "No answer":
  /// the smallest of the windows, at cls.
  double probability = 0;
};

/// The best answers to a question, best first: at least one and at most `options.best`. An answer
/// is a start and an end within the context of one window, with the end not before the start. If
/// windows share a position, it counts once, with its best score. The score of "no answer" is the
/// smallest sum of start and end score at cls, over the windows. Without any candidate, the answer
/// is empty.
std::vector<PredictedAnswer> best_answers(std::string_view context,
                                          std::span<const WindowScores> windows,
                                          const AnswerOptions& options);

}  // namespace nystrom
