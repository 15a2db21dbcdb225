// Named entities from the scores of words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tasks/encoder.h"
#include "data/tasks/labels.h"

namespace nystrom {

/// The predicted label of a word.
struct WordLabel {
  std::int64_t label = -1;  ///< −1: the word was cut off or has no token
  double probability = 0;
};

/// The predicted label of every word of a sample: the argmax of the scores at its first token.
/// `scores` is [n · labels], with n at least the number of the row's tokens.
std::vector<WordLabel> word_labels(const EncodedSample& sample, std::span<const double> scores,
                                   std::int64_t labels);

/// A named entity of a sentence.
struct Entity {
  std::string type;
  std::string text;                 ///< as in the text, or its words joined by spaces
  std::int64_t first = 0, end = 0;  ///< words first … end − 1
  TextRange place;                  ///< position in the text, if there is a text
  double score = 0;                 ///< mean probability of its words
};

/// The entities of a sentence. Words without a label count as O. `places` are the positions of the
/// words in `text`, from split_words (data/tasks/word_cut.h). Both are empty for a sentence that is
/// given as words.
std::vector<Entity> find_entities(std::span<const std::string> words,
                                  std::span<const WordLabel> predicted, const LabelSet& labels,
                                  std::string_view text = {},
                                  std::span<const TextRange> places = {});

}  // namespace nystrom
