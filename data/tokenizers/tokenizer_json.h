// SentencePiece tokenizers in Hugging Face's format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/sentencepiece_tokenizer.h"

namespace nystrom {

/// Throws an InputError "source: …" for a model that Hugging Face's tokenizers cannot reproduce.
/// That is a BPE model with a user-defined piece of several characters and a normal piece that its
/// own merges do not produce.
void require_writable(const SentencePieceModel& model, const std::string& source);

/// Returns a tokenizer.json with which Hugging Face's `tokenizers` gives the same ids as
/// `tokenizer` with SpecialNames::tokens.
std::string tokenizer_json(const SentencePieceTokenizer& tokenizer);

/// Returns tokenizer.json, tokenizer_config.json, special_tokens_map.json and spiece.model.
/// AutoTokenizer opens them as PreTrainedTokenizerFast; open_tokenizer reads them too. `max_length`
/// is the model's maximum number of tokens, with cls and sep.
std::vector<TokenizerFile> sentencepiece_files(const SentencePieceTokenizer& tokenizer,
                                               std::int64_t max_length);

}  // namespace nystrom
