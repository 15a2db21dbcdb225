// The files with which sentence-transformers makes one vector of a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

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
  /// Of the projection [out, width] and [out], in f32; undefined without one.
  Tensor weight{}, bias{};
};

/// Writes modules.json, 1_Pooling, 2_Dense where there is a projection, sentence_bert_config.json
/// and config_sentence_transformers.json with the prompts into `folder`. Throws an InputError when
/// the system refuses.
void write_sentence_transformers(const std::filesystem::path& folder,
                                 const SentenceTransformersFiles& files);

}  // namespace nystrom
