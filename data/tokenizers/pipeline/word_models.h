// The models of a tokenizer.json: how a word becomes tokens.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/vocabulary.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

class JsonPart;

/// Const members are safe to use from several threads.
class WordModel {
 public:
  explicit WordModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~WordModel() = default;

  /// Appends the tokens of a word, with their places in it. InputError when a part of it is no
  /// piece and none stands for the unknown.
  virtual void encode(std::string_view word, std::vector<Token>& tokens) const = 0;
  /// What stands for the unknown, where the model says so.
  virtual std::optional<std::int32_t> unknown() const = 0;
  /// Whether an unknown token is written as the text that it stands for, and not as the unknown
  /// piece: its spaces are the text's.
  virtual bool writes_unknown_text() const { return false; }
  /// What pieces begin with that go on with a word ("##"); empty when nothing tells them.
  virtual std::string_view continuing_prefix() const { return {}; }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

/// The model that a part of a tokenizer.json describes. InputError that names a type which is not
/// known, and for pieces, merges or ids that do not fit together.
std::unique_ptr<WordModel> read_word_model(const JsonPart& part);

/// Schuster and Nakajima 2012, as BERT uses it: the longest piece that fits, again and again; a
/// word with a part that no piece fits, or of more than `max_characters`, is unknown.
struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  std::int64_t max_characters = 100;
};
std::unique_ptr<WordModel> wordpiece_model(Vocabulary vocabulary, const WordPieceOptions& options);

/// Sennrich et al. 2016: the pair of neighbours that stands first in the list of merges becomes
/// one, again and again.
struct BpeOptions {
  std::string unknown;  ///< empty: characters that are no piece are left out; no piece itself: they
                        ///< are refused
  std::string continuing_prefix, end_suffix;
  bool fuse_unknown = false;  ///< neighbouring unknown characters are one token
  bool byte_fallback =
      false;  ///< a character that is no piece is written as pieces <0x00> to <0xFF>, if they exist
  bool ignore_merges = false;  ///< a word that is a piece is that piece, whatever the merges say
};
using Merges = std::vector<std::pair<std::string, std::string>>;
/// InputError "where: merge i …" for a merge whose parts or result are no pieces.
std::unique_ptr<WordModel> bpe_model(Vocabulary vocabulary, const Merges& merges,
                                     const BpeOptions& options, const std::string& where);

/// Kudo 2018: the pieces with the largest sum of scores; of sums alike the one found first.
/// Neighbouring unknown characters are one token.
std::unique_ptr<WordModel> unigram_model(Vocabulary vocabulary, std::vector<double> scores,
                                         std::optional<std::int32_t> unknown, bool byte_fallback);

/// InputError for a text that needs the unknown piece, where the vocabulary lacks it.
[[noreturn]] void refuse_unknown(const std::string& unknown);

/// The ids of the pieces <0x00> to <0xFF>, or nothing when one is missing for a byte of `text`.
std::optional<std::vector<std::int32_t>> byte_pieces(const Vocabulary& vocabulary,
                                                     std::string_view text);

}  // namespace nystrom
