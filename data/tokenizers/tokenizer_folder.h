// Opening whatever tokenizer a folder holds: the one way by which commands, configurations and
// exports come to a tokenizer.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// `place` is a folder or one of its tokenizer files. Of a folder decides, in this order:
/// spiece.model where tokenizer_config.json names ALBERT's class or none; tokenizer.json; another
/// SentencePiece model (spiece.model, tokenizer.model, sentencepiece.bpe.model); vocab.txt
/// (BERT's); vocab.json with merges.txt (GPT-2's and RoBERTa's). Beside them tokenizer_config.json,
/// special_tokens_map.json and, for the last two, added_tokens.json are read. InputError naming the
/// file when one is wrong, or when there is none of them.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& place);

/// Whether the folder holds a file that open_tokenizer would open.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace nystrom
