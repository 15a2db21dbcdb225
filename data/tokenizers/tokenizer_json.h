// SentencePiece tokenizers in Hugging Face's form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/sentencepiece_tokenizer.h"

namespace nystrom {

/// InputError "source: …" for a model that Hugging Face's tokenizers cannot imitate: BPE with a
/// user-defined piece of several characters beside a normal one that its own merges do not make.
void require_writable(const SentencePieceModel& model, const std::string& source);

/// A tokenizer.json with which Hugging Face's `tokenizers` gives the ids that `tokenizer` gives
/// with SpecialNames::tokens.
std::string tokenizer_json(const SentencePieceTokenizer& tokenizer);

/// tokenizer.json, tokenizer_config.json, special_tokens_map.json and spiece.model: what
/// AutoTokenizer reads (as AlbertTokenizerFast) and open_tokenizer too. `max_length` is the number
/// of tokens, with cls and sep, that the model can take.
std::vector<TokenizerFile> sentencepiece_files(const SentencePieceTokenizer& tokenizer,
                                               std::int64_t max_length);

}  // namespace nystrom
