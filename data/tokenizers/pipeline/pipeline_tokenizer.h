// Tokenizers made of the parts that a tokenizer.json names: normalizer, pre-tokenizer, model,
// post-processor, decoder, added tokens.
#pragma once

#include <memory>

#include "data/tokenizers/pipeline/added_tokens.h"
#include "data/tokenizers/pipeline/decoders.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/post_processors.h"
#include "data/tokenizers/pipeline/pre_tokenizers.h"
#include "data/tokenizers/pipeline/vocabulary.h"
#include "data/tokenizers/pipeline/word_models.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// Normalizer, pre-tokenizer and decoder may be absent (null).
struct TokenizerParts {
  std::unique_ptr<TextNormalizer> normalizer;
  /// By which added tokens are normalised where it is not the other: transformers changes that one
  /// when it has them already.
  std::unique_ptr<TextNormalizer> added_normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<WordModel> model;
  std::unique_ptr<Decoder> decoder;
  PostProcessor post_processor = PostProcessor::plain();
  Vocabulary vocabulary;  ///< the model's with the added tokens
  AddedTokenList added;
  SpecialIds special{no_id, no_id, no_id, no_id, no_id};
  bool made_template = false;        ///< cls text sep, which the files do not say
  std::vector<TokenizerFile> files;  ///< it came from
  std::string hugging_face_class =
      "PreTrainedTokenizerFast";   ///< for a tokenizer_config.json, should there be none among them
  bool adds_prefix_space = false;  ///< a byte-level pre-tokenizer does, before every text
  bool cleans_up_spaces =
      false;  ///< decoded texts: none before punctuation, as transformers does at times
};

/// Gives the ids and the places that Hugging Face's `tokenizers` give.
class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts);
  PipelineTokenizer(PipelineTokenizer&&) noexcept;
  ~PipelineTokenizer() override;

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
  bool marks_words() const override;
  std::string definition() const override;
  std::vector<TokenizerFile> files(std::int64_t max_length) const override;
  WrappedIds wrap(std::span<const std::int32_t> first) const override;
  WrappedIds wrap(std::span<const std::int32_t> first,
                  std::span<const std::int32_t> second) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nystrom
