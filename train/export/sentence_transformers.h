// The files with which sentence-transformers makes one vector of a text.
#pragma once

#include <filesystem>
#include <string>

#include "nn/model.h"

namespace nystrom {

/// What sentence-transformers lacks, in words for a message; empty if it computes these vectors.
std::string vectors_obstacle(const EmbeddingConfig& embedding);

/// Writes modules.json, 1_Pooling, a Dense for each layer, sentence_bert_config.json and
/// config_sentence_transformers.json into `folder`, for a model without vectors_obstacle(). Texts
/// are cut to `longest` tokens, with the special ones. Prompts are those of the folder `source`,
/// which the model came from; those of its configuration replace them. Throws an InputError when
/// the system refuses.
void write_sentence_transformers(const std::filesystem::path& folder,
                                 const std::filesystem::path& source, const Model& model,
                                 std::int64_t longest);

}  // namespace nystrom
