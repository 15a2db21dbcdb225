// Published metrics of predictions, computed as by their reference implementations. All are shares
// or correlations, not per cent. Those of answers are in answer_metrics.cpp; more of classes are in
// class_metrics.h, those of sets of labels in multi_label_metrics.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// The share of equal entries, 0 for none (scikit-learn's accuracy_score).
double accuracy(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted);

/// Precision, recall and F1 of one class (scikit-learn's precision_recall_fscore_support with
/// zero_division = 0).
struct PrecisionRecall {
  double precision = 0, recall = 0, f1 = 0;
};
/// Right and wrong decisions about one class or label.
struct ClassCounts {
  std::int64_t truth = 0, predicted = 0, correct = 0;
  PrecisionRecall score() const;
};
/// The counts of every class in truth or predictions.
std::map<std::int64_t, ClassCounts> count_classes(std::span<const std::int64_t> truth,
                                                  std::span<const std::int64_t> predicted);

/// The scores of class `positive` against all others.
PrecisionRecall binary_f1(std::span<const std::int64_t> truth,
                          std::span<const std::int64_t> predicted, std::int64_t positive = 1);

/// The mean F1 of all classes in truth or predictions (f1_score(average="macro")).
double macro_f1(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted);

/// The entries of one score.
struct Tie {
  double negative = 0, positive = 0;
};
/// How many entries have each score, the lowest first. No score is NaN.
std::vector<Tie> ties_of(const std::vector<bool>& positive, std::span<const double> scores);

/// Matthews' correlation for any number of classes (Gorodkin 2004; matthews_corrcoef). It is 0 if
/// truth or predictions have only one class.
double matthews_correlation(std::span<const std::int64_t> truth,
                            std::span<const std::int64_t> predicted);

/// Pearson's r (scipy.stats.pearsonr). NaN for fewer than 2 entries, and if either side is
/// constant.
double pearson_correlation(std::span<const double> a, std::span<const double> b);
/// Spearman's correlation: Pearson's r of ranks, where ties have their mean rank
/// (scipy.stats.spearmanr).
double spearman_correlation(std::span<const double> a, std::span<const double> b);

// ---- Answers: Rajpurkar et al., "SQuAD", EMNLP 2016, and "Know What You Don't Know", ACL 2018 ---

/// `text` in lower case, without ASCII punctuation and the articles a, an, the, and with single
/// spaces.
std::string normalize_answer(std::string_view text);
/// 1 if the normalised texts are equal, else 0.
double exact_match(std::string_view truth, std::string_view predicted);
/// The F1 of the bags of normalised words. If one side has no words, it is 1 if the other has none
/// either, else 0.
double answer_f1(std::string_view truth, std::string_view predicted);

/// The scores of a predicted answer.
struct AnswerScore {
  double exact = 0, f1 = 0;
};
/// The best scores over all right answers. Without right answers, the right one is "". An empty
/// prediction means that there is no answer.
AnswerScore score_answer(std::span<const std::string> truths, std::string_view predicted);

// ---- Entities: Tjong Kim Sang & De Meulder, CoNLL 2003, as seqeval's default mode reads tags ----

/// An entity at words begin … end − 1.
struct TaggedSpan {
  std::string type;
  std::int64_t begin = 0, end = 0;
  friend auto operator<=>(const TaggedSpan&, const TaggedSpan&) = default;
};

/// The entities of one sentence from tags O, B-X, I-X, E-X, S-X, in any of the schemes IO, IOB1,
/// BIO and BIOES. A tag that cannot continue the previous entity begins a new one. A tag without a
/// type has type "_".
std::vector<TaggedSpan> tagged_spans(std::span<const std::string> tags);
/// Whether a label is a tag of CoNLL files: O, or one of B, I, E, S with "-" and a type.
bool is_entity_tag(std::string_view tag);

/// The scores of entities. A span is correct if its type and both ends are.
struct EntityScores {
  PrecisionRecall spans;  ///< micro-averaged
  double accuracy = 0;    ///< share of equal tags
};
/// Scores predictions like seqeval's precision_score, recall_score, f1_score and accuracy_score.
/// `truth` and `predicted` hold the tags of the same sentences.
EntityScores score_entities(std::span<const std::vector<std::string>> truth,
                            std::span<const std::vector<std::string>> predicted);

}  // namespace nystrom
