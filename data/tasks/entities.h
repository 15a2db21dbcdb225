// Named entities out of scores of words, and words out of running text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tasks/encoder.h"
#include "data/tasks/labels.h"

namespace nystrom {

/// Words of running text, which is UTF-8, much as CoNLL files have them: between white space, each
/// punctuation mark by itself but for
/// - ' . , between letters or digits: techno-based, don't, 1,000.
std::vector<TextRange> split_words(std::string_view text);

/// What was predicted for a word.
struct WordLabel {
  std::int64_t label = -1;  ///< −1: the word was cut off or has no token
  double probability = 0;
};

/// Of every word of a sample: the label of the largest score at its first token. `scores` [n ·
/// labels], n at least the row's tokens.
std::vector<WordLabel> word_labels(const EncodedSample& sample, std::span<const double> scores,
                                   std::int64_t labels);

struct Entity {
  std::string type;
  std::string text;  ///< its words as they stand in the text, or with a space between
  std::int64_t first = 0, end = 0;  ///< words first … end − 1
  TextRange place;                  ///< in the text, where there is one
  double score = 0;                 ///< mean probability of its words
};

/// The entities of a sentence; words without a label count as O. `places`: of the words in `text`,
/// as split_words gives them; both empty: a sentence of words, with no text.
std::vector<Entity> find_entities(std::span<const std::string> words,
                                  std::span<const WordLabel> predicted, const LabelSet& labels,
                                  std::string_view text = {},
                                  std::span<const TextRange> places = {});

}  // namespace nystrom
