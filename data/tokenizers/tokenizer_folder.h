// Opens the tokenizer of a folder, whatever its kind. Commands, configurations and exports all open
// tokenizers here.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// Opens a tokenizer. `place` is a folder or one of its tokenizer files. In a folder the first of
/// these files counts:
/// 1. spiece.model, when tokenizer_config.json names ALBERT's class or none
/// 2. tokenizer.json
/// 3. another SentencePiece model: spiece.model, tokenizer.model, sentencepiece.bpe.model (with the
///    ids of XLM-RoBERTa or CamemBERT, if it has their pieces)
/// 4. vocab.txt (BERT)
/// 5. vocab.json with merges.txt (GPT-2 and RoBERTa)
///
/// tokenizer_config.json and special_tokens_map.json are read too, and added_tokens.json for the
/// last two. Throws an InputError that names a wrong file, or when there is no tokenizer.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& place);

/// Whether the folder has a file that open_tokenizer would open.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace nystrom
