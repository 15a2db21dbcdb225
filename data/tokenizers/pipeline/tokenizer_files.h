// Readers and writers of the tokenizer files of Hugging Face's library. All vocabularies are read
// through a tokenizer.json, nearly always the one that transformers makes of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizers/pipeline/pipeline_tokenizer.h"

namespace nystrom {

/// The tokenizer of a tokenizer.json, with the changes of its folder's settings. `source` names the
/// file in messages. Padding and truncation are ignored: they are call settings of Hugging Face's
/// library. Throws an InputError for wrong or unsupported content.
std::unique_ptr<Tokenizer> tokenizer_of_json(std::string_view text,
                                             const std::string& source = "tokenizer.json",
                                             const TokenizerSettings& settings = {});

/// The tokenizer.json of a BERT vocabulary with one piece on each line. Throws an InputError for
/// wrong content.
std::string bert_tokenizer_json(std::string_view text, const std::string& source,
                                const TokenizerSettings& settings);

/// The tokenizer.json of a byte-level BPE vocabulary, with RoBERTa's or GPT-2's template, as the
/// class of the settings says. Throws an InputError for wrong content.
std::string gpt2_tokenizer_json(const nlohmann::json& vocabulary,
                                const std::string& vocabulary_source, std::string_view merges,
                                const std::string& merges_source,
                                const TokenizerSettings& settings);

/// Returns a tokenizer.json with all that the settings changed, and a tokenizer_config.json for
/// PreTrainedTokenizerFast. transformers 4 and 5 and open_tokenizer read them alike, whatever the
/// model. `max_length` is the most tokens that the model was trained on, with the special ones; a
/// stored truncation and model_max_length follow it.
std::vector<TokenizerFile> written_files(const TokenizerParts& parts, std::int64_t max_length,
                                         bool token_types);

/// The result of written_files without the lengths, which decide no id.
std::string definition_of(const TokenizerParts& parts);

}  // namespace nystrom
