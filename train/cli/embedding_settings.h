// Helpers of the commands of vectors: opening a model, and the options that say how texts become
// vectors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/task_config.h"
#include "train/cli/commands.h"
#include "train/config/config.h"
#include "train/objectives/text_embedder.h"
#include "train/state/model_folder.h"

namespace nystrom {

/// The options of vectors. Those that are not given are the model's own.
struct EmbeddingFlags {
  std::optional<SentencePooling> pooling;
  bool normalize = false, no_normalize = false;
  std::optional<std::int64_t> dimensions;
  std::int64_t batch_size = 32;

  void add_to(CLI::App& command);
  /// Declares --dimensions only.
  void add_dimensions_to(CLI::App& command);
};

/// A model that makes vectors of texts.
struct VectorModel {
  ModelFolder folder;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  TaskConfig task;  ///< how files of texts are read; resolved
  std::int64_t sequence_length = 0;

  TextEmbedder embedder(const EmbeddingFlags& flags, PromptKind prompt,
                        Communicator* communicator = nullptr) const;
  /// The options for a ranking by products: vectors of length 1 if model.embedding.similarity is
  /// cosine and the flags do not say. Throws an InputError for another one than cosine and dot.
  EmbeddingFlags for_ranking(EmbeddingFlags flags) const;
};

/// Tells what is to be known of the texts that an embedder has read.
void say_note(const TextEmbedder& embedder, Log& log);

/// Opens MODEL for texts that are read as a task of `kind`. `overrides` are those of model, data
/// and task. Throws an InputError for a model of features, and without a tokenizer.
VectorModel open_vector_model(const std::string& model, const std::vector<std::string>& overrides,
                              TaskKind kind, DType dtype, Device device, Log& log);

}  // namespace nystrom
