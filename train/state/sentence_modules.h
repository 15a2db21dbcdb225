// The modules of a sentence-transformers folder: how its encoder's hidden states become vectors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/model_config.h"

namespace nystrom {

struct ModelFolder;

/// The contents of modules.json and of the files that it names.
struct SentenceModules {
  /// The weights of a Dense: their folder, and what its config.json says of them.
  struct Dense {
    std::filesystem::path folder;
    std::int64_t inputs = 0;  ///< in_features; 0: not stated
    bool bias = true;
  };
  std::filesystem::path folder;   ///< of modules.json
  std::filesystem::path encoder;  ///< of the first module: config.json and the weights
  EmbeddingConfig embedding;
  std::optional<std::int64_t> max_seq_length;
  /// In order: the last one is the projection.
  std::vector<Dense> dense;
  /// All prompts by name, also those that nystrom has no use for.
  std::vector<std::pair<std::string, std::string>> prompts;
  std::optional<std::string> default_prompt;
};

/// The modules of the folder that holds modules.json, or of the folder of its encoder
/// ("0_Transformer"); nothing for other folders and for those that require_vectors refuses. Throws
/// an InputError that names a module, a pooling, an activation or an option that nystrom lacks, and
/// for wrong files.
std::optional<SentenceModules> read_sentence_modules(const std::filesystem::path& folder);

/// The folder of the encoder that `folder` holds by its modules.json, "0_Transformer"; nothing
/// where it is the encoder's own. sentence-transformers reads no other encoder there.
std::optional<std::filesystem::path> encoder_in(const std::filesystem::path& folder);

/// Throws an InputError for a folder whose modules.json makes no vectors: a model of pairs
/// (CrossEncoder), or a Transformer alone. sentence-transformers makes none, or others than
/// nystrom.
void require_vectors(const ModelFolder& folder);

}  // namespace nystrom
