// Writing a model as a Hugging Face folder: config.json, weights, tokenizer and model card, whole
// or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/checkpoint/model_folder.h"
#include "train/export/export_check.h"
#include "train/formats/transformers_class.h"
#include "train/logging/log.h"

namespace nystrom {

struct ExportOptions {
  bool softmax = false;  ///< exact attention in place of the model's own
  bool verify = false;   ///< read back, compare, and put the measured differences into the card
};

/// What was written.
struct ExportResult {
  std::int64_t parameters = 0;
  std::vector<std::string> files;             ///< names, sorted
  std::vector<ExportDifference> differences;  ///< empty unless asked for
};

/// Writes `source` into `folder`, which must not exist or be empty; its parents are made.
/// Everything is written into a folder beside it, which is renamed at the end and removed after an
/// error. What transformers computes otherwise is said in `log` and in the card. InputError for
/// what transformers cannot represent (see exported_config), for a tokenizer with more pieces than
/// the model has rows, and when the system refuses; Error when the files read back are not what was
/// written.
ExportResult export_model(const ModelFolder& source, const std::filesystem::path& folder,
                          const ExportOptions& options, Log& log);

/// The configuration that an export of `config` gets. With `softmax`, and for models of that kind,
/// segment_means_seq_len is num_landmarks: transformers then computes exact attention, at any
/// length. InputError with the export_obstacle.
ModelConfig exported_config(const ModelConfig& config, bool softmax);

/// What of the model transformers does not compute as nystrom does, a sentence each.
std::vector<std::string> export_notes(const ModelConfig& exported);

}  // namespace nystrom
