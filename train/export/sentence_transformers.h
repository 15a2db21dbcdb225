// The files with which sentence-transformers makes one vector of a text.
#pragma once

#include <cstdint>
#include <filesystem>

#include "nn/model_config.h"

namespace nystrom {

/// Writes modules.json, 1_Pooling/config.json, sentence_bert_config.json and
/// config_sentence_transformers.json into `folder`. `width`: of a hidden state. `longest`: the
/// tokens of a text, with the special ones; more are cut off. Throws an InputError when the system
/// refuses.
void write_sentence_transformers(const std::filesystem::path& folder, SentencePooling pooling,
                                 std::int64_t width, std::int64_t longest);

}  // namespace nystrom
