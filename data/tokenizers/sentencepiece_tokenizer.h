// Tokenizers of SentencePiece models, with ALBERT's conventions: the tokenizer of the published
// Nyströmformers, and of those trained here.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/normalizer.h"
#include "data/tokenizers/sentencepiece_scan.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// Gives the ids of Hugging Face's AlbertTokenizer: normalize(), then the model, and no piece that
/// joins a comma to a digit before it
/// ("12,345" is 12 , 345). There the slow and the fast class differ in rare cases; this is as the
/// fast one, which the tokenizer.json written by write_tokenizer reproduces: such pieces have 100
/// taken off their score (unigram; a BPE model has no such rule). Each word is encoded by itself,
/// so that ids do not depend on where in a text it stands.
class SentencePieceTokenizer : public Tokenizer {
 public:
  /// InputError naming the file when it is no model or lacks one of [CLS], [SEP], <pad>, [MASK].
  static SentencePieceTokenizer open(const std::filesystem::path& file,
                                     const NormalizerOptions& options = {});
  /// A model file with the options do_lower_case and keep_accents of the tokenizer_config.json
  /// beside it.
  static SentencePieceTokenizer open_beside_config(const std::filesystem::path& file);
  /// The same of a folder's spiece.model.
  static SentencePieceTokenizer open_folder(const std::filesystem::path& folder);
  /// A model in memory; `source` names it in messages.
  static SentencePieceTokenizer parse(std::string bytes, const std::string& source,
                                      const NormalizerOptions& options = {});

  SentencePieceTokenizer(SentencePieceTokenizer&&) noexcept;
  ~SentencePieceTokenizer() override;

  std::vector<std::int32_t> encode(std::string_view text,
                                   SpecialNames names = SpecialNames::text) const override;
  std::vector<Token> encode_with_offsets(std::string_view text,
                                         SpecialNames names = SpecialNames::text) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const override;
  std::int64_t vocab_size() const override;
  const std::string& piece(std::int32_t id) const override;
  std::optional<std::int32_t> find(std::string_view piece) const override;
  const SpecialIds& special() const override;
  bool starts_word(std::int32_t id) const override;
  std::string definition() const override;
  /// tokenizer.json, tokenizer_config.json, special_tokens_map.json and spiece.model: AutoTokenizer
  /// reads them as AlbertTokenizerFast.
  std::vector<TokenizerFile> files(std::int64_t max_length) const override;

  /// Pieces with the scores in force (those of digits with a comma lowered), kind and charsmap.
  const SentencePieceModel& model() const;
  /// The file as it was read.
  const std::string& bytes() const;
  const NormalizerOptions& options() const;

 private:
  struct State;
  explicit SentencePieceTokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Whether the piece ends in a comma behind a digit of any script.
bool joins_comma_to_digit(std::string_view piece);

}  // namespace nystrom
