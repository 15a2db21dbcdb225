// Opens the tokenizer of a folder, whatever its kind. Commands, configurations and exports all open
// tokenizers here.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// Opens a tokenizer. `place` is a folder or one of its tokenizer files. In a folder the first of
/// these files counts:
/// 1. tokenizer.json
/// 2. a SentencePiece model: spiece.model, tokenizer.model, sentencepiece.bpe.model (ALBERT's; one
///    of the last name with the ids of XLM-RoBERTa or CamemBERT, if it has their pieces)
/// 3. vocab.txt (BERT)
/// 4. vocab.json with merges.txt (GPT-2 and RoBERTa)
///
/// All of them are read through the tokenizer.json that transformers makes of them.
/// tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json are read too.
/// Throws an InputError that names a wrong file, a class whose vocabulary is read otherwise or that
/// needs Python, or when there is no tokenizer.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& place);

/// Whether the folder has a file that open_tokenizer would open.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace nystrom
