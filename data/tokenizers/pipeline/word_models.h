// The models of a tokenizer.json: they encode a word as tokens.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/vocabulary.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

class JsonPart;

/// Interface of the models. Const members may be called from several threads.
class WordModel {
 public:
  explicit WordModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~WordModel() = default;

  /// Appends the tokens of a word with their offsets in it. Ids for which `hidden` is true are not
  /// among them, unless as the unknown token; an empty list hides none. BPE keeps hidden pieces of
  /// one character, as other pieces are merged from them. Throws an InputError when no piece fits a
  /// part of the word and the model has no unknown token.
  virtual void encode(std::string_view word, std::vector<Token>& tokens,
                      const std::vector<bool>& hidden = {}) const = 0;
  /// The id of the unknown token, when the model has one.
  std::optional<std::int32_t> unknown() const { return unknown_; }
  /// Whether an unknown token stands for its text and not for the unknown piece. Its spaces are
  /// then those of the text.
  virtual bool writes_unknown_text() const { return false; }
  /// The prefix of pieces that continue a word ("##"), or empty when pieces have no such mark.
  virtual std::string_view continuing_prefix() const { return {}; }

  /// The pieces of the model.
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  static bool is_hidden(const std::vector<bool>& hidden, std::int32_t id) {
    return !hidden.empty() && hidden[static_cast<std::size_t>(id)];
  }

  std::optional<std::int32_t> unknown_;

 private:
  Vocabulary vocabulary_;
};

/// Creates the model that a part of a tokenizer.json describes. Throws an InputError for an unknown
/// type, and for inconsistent pieces, merges or ids.
std::unique_ptr<WordModel> read_word_model(const JsonPart& part);

/// Reads WordPiece (Schuster and Nakajima 2012) as BERT uses it: greedy longest match from left to
/// right. A word with an unmatched part, or with too many characters, is unknown.
std::unique_ptr<WordModel> read_wordpiece(const JsonPart& part);

/// Reads BPE (Sennrich et al. 2016): the adjacent pair with the earliest merge is merged,
/// repeatedly.
std::unique_ptr<WordModel> read_bpe(const JsonPart& part);
using Merges = std::vector<std::pair<std::string, std::string>>;

/// Reads a unigram model (Kudo 2018). It selects the segmentation with the largest sum of scores;
/// the first one found wins a tie. Adjacent unknown characters form one token.
std::unique_ptr<WordModel> read_unigram(const JsonPart& part);

/// Throws the InputError for a text that needs the unknown piece when the vocabulary lacks it.
[[noreturn]] void refuse_unknown(const std::string& unknown);

/// Returns the ids of the pieces <0x00> to <0xFF> for the bytes of `text`, or nothing when one is
/// missing.
std::optional<std::vector<std::int32_t>> byte_pieces(const Vocabulary& vocabulary,
                                                     std::string_view text);

}  // namespace nystrom
