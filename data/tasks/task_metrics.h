// Published measures of predictions, as their reference implementations compute them. All are
// shares or correlations, none per cent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// Share of equal entries; 0 of none. scikit-learn's accuracy_score.
double accuracy(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted);

/// Of one class: scikit-learn's precision_recall_fscore_support with zero_division = 0.
struct PrecisionRecall {
  double precision = 0, recall = 0, f1 = 0;
};
/// Of class `positive` against all others.
PrecisionRecall binary_f1(std::span<const std::int64_t> truth,
                          std::span<const std::int64_t> predicted, std::int64_t positive = 1);

/// Mean F1 of the classes that occur in truth or predictions; f1_score(average="macro").
double macro_f1(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted);

/// Matthews' correlation of any number of classes (Gorodkin 2004); 0 where truth or predictions are
/// all one class. matthews_corrcoef.
double matthews_correlation(std::span<const std::int64_t> truth,
                            std::span<const std::int64_t> predicted);

/// Pearson's r; NaN for fewer than 2 entries and where either side is constant.
/// scipy.stats.pearsonr.
double pearson_correlation(std::span<const double> a, std::span<const double> b);
/// Pearson's r of ranks, ties having the mean of theirs. scipy.stats.spearmanr.
double spearman_correlation(std::span<const double> a, std::span<const double> b);

// ---- Answers: Rajpurkar et al., "SQuAD", EMNLP 2016, and "Know What You Don't Know", ACL 2018 ---

/// Lower case without ASCII punctuation, the articles a, an, the, and white space beyond one space.
std::string normalize_answer(std::string_view text);
/// 1 when the normalised texts are equal, else 0.
double exact_match(std::string_view truth, std::string_view predicted);
/// F1 of the bags of normalised words; when one side has none: 1 if both have none, else 0.
double answer_f1(std::string_view truth, std::string_view predicted);

struct AnswerScore {
  double exact = 0, f1 = 0;
};
/// The best over all right answers; none: the right one is "". An empty prediction says that there
/// is no answer.
AnswerScore score_answer(std::span<const std::string> truths, std::string_view predicted);

// ---- Entities: Tjong Kim Sang & De Meulder, CoNLL 2003, as seqeval's default mode reads tags ----

/// Words begin … end − 1.
struct TaggedSpan {
  std::string type;
  std::int64_t begin = 0, end = 0;
  friend auto operator<=>(const TaggedSpan&, const TaggedSpan&) = default;
};

/// The entities of one sentence from tags O, B-X, I-X, E-X, S-X (IO, IOB1, BIO, BIOES alike): a tag
/// that cannot go on with the entity before it begins one. A tag without a type is of type "_".
std::vector<TaggedSpan> tagged_spans(std::span<const std::string> tags);
/// Whether a label is O, or one of B, I, E, S with "-" and a type: what CoNLL files may hold.
bool is_entity_tag(std::string_view tag);

struct EntityScore {
  std::string type;
  std::int64_t truth = 0, predicted = 0, correct = 0;
  PrecisionRecall score;
};
/// A span is right when type and both ends are.
struct EntityScores {
  EntityScore all;                 ///< micro-averaged; type is empty
  std::vector<EntityScore> types;  ///< of each type, sorted
  double accuracy = 0;             ///< share of equal tags
};
/// `truth` and `predicted` are sentences of as many tags. seqeval's precision_score, recall_score,
/// f1_score and accuracy_score.
EntityScores score_entities(std::span<const std::vector<std::string>> truth,
                            std::span<const std::vector<std::string>> predicted);

}  // namespace nystrom
