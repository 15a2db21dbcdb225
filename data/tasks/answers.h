// Answers to questions out of the scores of windows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tasks/encoder.h"

namespace nystrom {

/// The outputs for one window: scores of each position of its row to be the answer's first and last
/// token. Padding may follow.
struct WindowScores {
  const EncodedSample* window = nullptr;
  std::span<const double> start, end;
};

struct AnswerOptions {
  std::int64_t best =
      20;  ///< candidates: the best starts and ends of each window, and of their pairs over all
  std::int64_t max_answer_length = 30;  ///< tokens
  bool no_answer = false;               ///< "no answer" is a candidate …
  double no_answer_threshold =
      0;  ///< … and stands behind answers whose score + this reaches its own
};

struct PredictedAnswer {
  std::string
      text;  ///< cut from the context, white space at its ends removed; empty: there is no answer
  TextRange place;         ///< in the context
  double score = 0;        ///< of the first token + of the last
  double probability = 0;  ///< softmax over the candidates
};

/// The best answers of a question, best first, at most `options.best` and at least one: pairs of a
/// start and an end within the context of one window, the end not before the start. The same place
/// in two windows counts once, with its best score. The score of "no answer" is the smallest over
/// the windows of start + end at cls. Without any candidate the answer is empty.
std::vector<PredictedAnswer> best_answers(std::string_view context,
                                          std::span<const WindowScores> windows,
                                          const AnswerOptions& options);

}  // namespace nystrom
