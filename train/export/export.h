// Export of a model as a Hugging Face folder with config.json, weights, tokenizer and model card.
// The folder is complete or absent.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/checkpoint/model_folder.h"
#include "train/export/export_check.h"
#include "train/formats/transformers_class.h"
#include "train/logging/log.h"

namespace nystrom {

/// The options of an export.
struct ExportOptions {
  bool softmax = false;  ///< exact attention in place of the model's own
  /// Reads the folder back, compares it, and adds the measured differences to the card.
  bool verify = false;
};

/// The result of an export.
struct ExportResult {
  std::int64_t parameters = 0;
  std::vector<std::string> files;             ///< names, sorted
  std::vector<ExportDifference> differences;  ///< empty without verify
};

/// Exports `source` into `folder`, which must not exist or be empty; its parents are created. All
/// files are written into a folder beside it, which is renamed at the end and removed after an
/// error. `log` and the card describe the differences of transformers. Throws an InputError for
/// models that transformers cannot represent (see exported_config), for a tokenizer with more
/// tokens than the model has rows, and when the system refuses. Throws an Error when files that are
/// read back differ from the written ones.
ExportResult export_model(const ModelFolder& source, const std::filesystem::path& folder,
                          const ExportOptions& options, Log& log);

/// The configuration of an export. With `softmax`, and for models of that kind,
/// segment_means_seq_len is num_landmarks, so transformers computes exact attention at any length.
/// Throws an InputError with the export_obstacle.
ModelConfig exported_config(const ModelConfig& config, bool softmax);

/// The differences of transformers from nystrom for this model, one sentence each.
std::vector<std::string> export_notes(const ModelConfig& exported);

}  // namespace nystrom
