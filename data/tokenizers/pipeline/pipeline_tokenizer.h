// Tokenizers made of the parts of a tokenizer.json: normalizer, pre-tokenizer, model,
// post-processor, decoder and added tokens.
#pragma once

#include <memory>

#include "data/tokenizers/pipeline/added_tokens.h"
#include "data/tokenizers/pipeline/decoders.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/post_processors.h"
#include "data/tokenizers/pipeline/pre_tokenizers.h"
#include "data/tokenizers/pipeline/tokenizer_settings.h"
#include "data/tokenizers/pipeline/vocabulary.h"
#include "data/tokenizers/pipeline/word_models.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// The parts of a tokenizer. Normalizer, pre-tokenizer and decoder may be empty.
struct TokenizerParts {
  TextNormalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<WordModel> model;
  Decoder decoder;
  PostProcessor post_processor;
  Vocabulary vocabulary;  ///< the model's vocabulary with the added tokens
  AddedTokenList added;
  SpecialIds special{no_id, no_id, no_id, no_id, no_id};
  bool has_own_template = false;  ///< post_processor is not the one of `json`
  std::string json;               ///< the tokenizer.json that the parts were read from
  /// Its members that the settings changed: key and new JSON.
  std::vector<std::pair<std::string, std::string>> changes;
  bool adds_prefix_space = false;  ///< a byte-level pre-tokenizer adds a space before every text
  bool token_types = true;         ///< whether wrap() gives other token types than 0
  TokenizerSettings settings;      ///< of the files beside it
};

/// The tokenizer of these parts. It gives the same ids and offsets as Hugging Face's `tokenizers`.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

}  // namespace nystrom
