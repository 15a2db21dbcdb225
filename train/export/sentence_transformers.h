// The files with which sentence-transformers makes one vector of a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "nn/model_config.h"

namespace nystrom {

/// What sentence-transformers lacks, in words for a message; empty if it computes these vectors.
std::string vectors_obstacle(const EmbeddingConfig& embedding);

/// The files' content: how a text becomes a vector, and the tensors for it.
struct SentenceTransformersFiles {
  EmbeddingConfig embedding;  ///< without vectors_obstacle()
  std::int64_t width = 0;     ///< of a hidden state
  std::int64_t longest = 0;   ///< tokens of a text, with the special ones; more are cut off
  /// Of the dense layers and the projection, in f32, by their names in the model.
  std::map<std::string, Tensor> tensors = {};
  /// Prompts of the folder that the model came from; those of `embedding` replace them.
  std::vector<std::pair<std::string, std::string>> prompts = {};
  std::optional<std::string> default_prompt = {};
};

/// Writes modules.json, 1_Pooling, a Dense for each layer, sentence_bert_config.json
/// and config_sentence_transformers.json with the prompts into `folder`. Throws an InputError when
/// the system refuses.
void write_sentence_transformers(const std::filesystem::path& folder,
                                 const SentenceTransformersFiles& files);

}  // namespace nystrom
