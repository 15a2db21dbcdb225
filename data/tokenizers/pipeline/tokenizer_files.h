// Readers for the tokenizer files of Hugging Face's library.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizers/pipeline/pipeline_tokenizer.h"
#include "data/tokenizers/pipeline/special_ids.h"

namespace nystrom {

inline constexpr std::size_t max_tokenizer_bytes = std::size_t{64} << 20;

/// Reads the parts of a tokenizer.json, with the changes of its folder's settings. `source` names
/// the file in messages. Padding and truncation are ignored: they are call settings of Hugging
/// Face's library. Throws an InputError for wrong or unsupported content.
TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& source,
                                    const TokenizerSettings& settings = {});

/// Reads the parts of a BERT tokenizer from a vocabulary with one piece on each line and the
/// settings. Throws an InputError for wrong content.
TokenizerParts parse_bert_vocabulary(std::string_view text, const std::string& source,
                                     const TokenizerSettings& settings);

/// Reads the parts of a byte-level BPE tokenizer. It is RoBERTa's when the vocabulary has <s>,
/// </s>, <pad> and <mask> and the settings do not name GPT-2's class; otherwise it is GPT-2's.
/// Throws an InputError for wrong content.
TokenizerParts parse_gpt2_vocabulary(std::string_view vocabulary,
                                     const std::string& vocabulary_source, std::string_view merges,
                                     const std::string& merges_source,
                                     const TokenizerSettings& settings);

/// Returns a tokenizer.json with the template of a tokenizer whose own files lack it
/// (parts.made_template).
std::string tokenizer_json_with_template(const TokenizerParts& parts);

}  // namespace nystrom
