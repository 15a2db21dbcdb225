// Tokenizers of SentencePiece models with ALBERT's conventions. The published Nyströmformers use
// them, and so do models trained with this program.
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

/// Returns the ids of Hugging Face's AlbertTokenizer: normalize() and then the model. No piece
/// joins a comma to the digit before it ("12,345" becomes 12 , 345).
///
/// The slow and the fast class of Hugging Face differ in rare cases with such commas. This class
/// follows the fast one, so the tokenizer.json of write_tokenizer gives the same ids. Unigram
/// models subtract 100 from the scores of such pieces; BPE models have no such rule.
///
/// Each word is encoded by itself. Its ids do not depend on its position in the text.
class SentencePieceTokenizer : public Tokenizer {
 public:
  /// Opens a model file. Throws an InputError with the name of the file when it is not a model, or
  /// lacks one of [CLS], [SEP], <pad>, [MASK].
  static SentencePieceTokenizer open(const std::filesystem::path& file,
                                     const NormalizerOptions& options = {});
  /// Opens a model file with the options do_lower_case and keep_accents of the
  /// tokenizer_config.json in the same folder. Throws an InputError like open(), or for a wrong
  /// configuration.
  static SentencePieceTokenizer open_beside_config(const std::filesystem::path& file);
  /// Calls open_beside_config for the spiece.model of a folder.
  static SentencePieceTokenizer open_folder(const std::filesystem::path& folder);
  /// Reads a model from memory. `source` names it in error messages. Throws an InputError like
  /// open().
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
  /// Returns tokenizer.json, tokenizer_config.json, special_tokens_map.json and spiece.model.
  /// AutoTokenizer opens them as PreTrainedTokenizerFast.
  std::vector<TokenizerFile> files(std::int64_t max_length) const override;

  /// The pieces, the kind and the charsmap. The scores are those in use: lowered for a digit with a
  /// comma.
  const SentencePieceModel& model() const;
  /// The file as it was read.
  const std::string& bytes() const;
  /// The options of normalize().
  const NormalizerOptions& options() const;

 private:
  struct State;
  explicit SentencePieceTokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Whether the piece ends in a digit of any script and a comma.
bool joins_comma_to_digit(std::string_view piece);

}  // namespace nystrom
