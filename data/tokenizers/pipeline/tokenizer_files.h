// Tokenizers from the files of Hugging Face's library.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizers/pipeline/pipeline_tokenizer.h"
#include "data/tokenizers/pipeline/special_ids.h"

namespace nystrom {

inline constexpr std::size_t max_tokenizer_bytes = std::size_t{64} << 20;

/// The parts that a tokenizer.json describes, changed as its folder's settings say; `source` names
/// it in messages. Padding and truncation in it are settings of Hugging Face's calls and passed
/// over. InputError for what is wrong or not supported.
TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& source,
                                    const TokenizerSettings& settings = {});

/// The parts of a BERT tokenizer: a vocabulary with a piece a line, and what the settings say.
TokenizerParts parse_bert_vocabulary(std::string_view text, const std::string& source,
                                     const TokenizerSettings& settings);

/// The parts of a byte-level BPE tokenizer: RoBERTa's when the vocabulary has <s>, </s>, <pad> and
/// <mask>, else GPT-2's.
TokenizerParts parse_gpt2_vocabulary(std::string_view vocabulary,
                                     const std::string& vocabulary_source, std::string_view merges,
                                     const std::string& merges_source,
                                     const TokenizerSettings& settings);

/// A tokenizer.json for a tokenizer whose own files lack the template that was made for it
/// (parts.made_template).
std::string tokenizer_json_with_template(const TokenizerParts& parts);

}  // namespace nystrom
