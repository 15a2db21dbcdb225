// Named entities, from the scores of words and from tags, and their metrics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tasks/encoder.h"
#include "data/tasks/labels.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {

/// The predicted label of a word.
struct WordLabel {
  std::int64_t label = cut_off;  ///< or cut_off or no_token
  double probability = 0;
};

/// The predicted label of every word of a sample: the argmax of the scores at its first token.
/// `scores` is [n · labels], with n at least the number of the row's tokens.
std::vector<WordLabel> word_labels(const EncodedSample& sample, std::span<const double> scores,
                                   std::int64_t labels);

/// The tags of words, by their labels: O for a word that was cut off, and empty for one without
/// tokens.
std::vector<std::string> tags_of(std::span<const WordLabel> words, const LabelSet& labels);

/// A named entity of a sentence.
struct Entity {
  std::string type{};
  std::int64_t first = 0, end = 0;  ///< words first … end − 1
  std::string text{};               ///< as in the text, or its words joined by spaces
  TextRange place{};                ///< position in the text, if there is a text
  double score = 0;                 ///< mean probability of its words
  friend bool operator==(const Entity&, const Entity&) = default;
};

/// The entities of a sentence, by tags_of its words. `places` are the positions of the
/// words in `text`, from split_words (data/tasks/word_cut.h). Both are empty for a sentence that is
/// given as words.
std::vector<Entity> find_entities(std::span<const std::string> words,
                                  std::span<const WordLabel> predicted, const LabelSet& labels,
                                  std::string_view text = {},
                                  std::span<const TextRange> places = {});

// ---- Entities: Tjong Kim Sang & De Meulder, CoNLL 2003, as seqeval's default mode reads tags ----

/// The types and words of a sentence's entities, from tags like B-X and O in any of the schemes IO,
/// IOB1, BIO, BIOES, BILOU and BMES. A tag that cannot continue the previous entity begins a new
/// one. A tag without a type has type "_". An empty tag is
/// passed over.
std::vector<Entity> tagged_entities(std::span<const std::string> tags);
/// Whether a label is a tag of CoNLL files: O, or a letter of the schemes with "-" and a type.
bool is_entity_tag(std::string_view tag);

/// The scores of entities, without words of empty predicted tags. One is correct if its type and
/// both ends are.
struct EntityScores {
  PrecisionRecall spans;  ///< micro-averaged
  double accuracy = 0;    ///< share of equal tags
};
/// Scores predictions like seqeval's precision_score, recall_score, f1_score and accuracy_score.
/// `truth` and `predicted` hold the tags of the same sentences.
EntityScores score_entities(std::span<const std::vector<std::string>> truth,
                            std::span<const std::vector<std::string>> predicted);

}  // namespace nystrom
