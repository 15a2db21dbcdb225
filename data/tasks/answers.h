// Answers to questions, from the model's scores of windows, and their metrics.
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

/// A candidate answer.
struct PredictedAnswer {
  /// A part of the context, without white space at its ends. Empty: there is no answer.
  std::string text;
  TextRange place;  ///< position in the context
  /// The probability of the first token times that of the last, each among cls and the context's
  /// tokens in a window. Those of equal texts are added. "No answer": the smallest of the windows,
  /// at cls.
  double score = 0;
};

/// The best answers to a question as transformers' pipeline finds them, best first: at least one
/// and at most `best`. The 2 · best + 10 most probable pairs of a window count (`best` without
/// task.whole_words). Answers that are equal but for case are one. With task.no_answer, "no answer"
/// is a candidate. It ranks before answers the logarithm of whose score, plus
/// task.no_answer_threshold, is less than that of its own. Without any candidate there is no
/// answer.
std::vector<PredictedAnswer> best_answers(std::string_view context,
                                          std::span<const WindowScores> windows,
                                          const TaskConfig& task, std::int64_t best);

/// The number of answers that a prediction has by default. `evaluate` scores the first of as many:
/// with fewer, fewer pairs of tokens count.
inline constexpr std::int64_t default_answers = 5;

// ---- Metrics: Rajpurkar et al., "SQuAD", EMNLP 2016, and "Know What You Don't Know", ACL 2018 ---

/// `text` in lower case, without ASCII punctuation and the articles a, an, the, and with single
/// spaces.
std::string normalize_answer(std::string_view text);

/// How well an answer fits a right one, by their normalised texts.
struct AnswerScore {
  double exact = 0;  ///< 1 if the texts are equal, else 0
  /// The F1 of the bags of words. If one side has no words, it is 1 if the other has none either,
  /// else 0.
  double f1 = 0;
};
/// The best scores over all right answers; those without a word do not count beside others. Without
/// right answers, the right one is "". An empty prediction means that there is no answer.
AnswerScore score_answer(std::span<const std::string> truths, std::string_view predicted);

}  // namespace nystrom
