// Export of a model as a Hugging Face folder with config.json, weights, tokenizer and model card.
// The folder is complete or absent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "train/export/export_verification.h"
#include "train/export/sentence_transformers.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"
#include "train/state/transformers_class.h"

namespace nystrom {

/// The classes with which transformers runs an exported folder.
enum class ExportFormat {
  automatic,     ///< those of BERT's family if they compute this model, else nystrom
  nystrom,       ///< those in the folder (model_classes), or transformers' own if they are equal
  transformers,  ///< transformers' Nyströmformer, whatever it computes
  bert,          ///< here and below: those of this model_type
  camembert,
  distilbert,
  electra,
  modernbert,
  roberta,
  xlm_roberta
};

std::span<const EnumName<ExportFormat>> enum_names(ExportFormat);

/// The ONNX files of an export: none, onnx/model.onnx, or that and onnx/model_int8.onnx.
enum class OnnxExport { none, f32, int8 };

/// The options of an export.
struct ExportOptions {
  ExportFormat format = ExportFormat::automatic;
  bool softmax = false;  ///< exact attention in place of the model's own
  /// Adds the files of sentence-transformers, with this pooling, or with the model's.
  bool sentence_transformers = false;
  std::optional<SentencePooling> pooling = {};
  /// Reads the folder back and compares it. Where transformers runs its own classes, measures their
  /// differences and adds them to the card.
  bool verify = false;
  OnnxExport onnx = OnnxExport::none;
};

/// The result of an export.
struct ExportResult {
  std::int64_t parameters = 0;
  std::vector<std::string> files;  ///< paths in the folder, sorted
  /// Of transformers' own classes; empty without verify, and for a folder with model_classes.
  std::vector<ExportDifference> differences;
};

/// hf_config_text with what a folder made of `source` keeps of its task: how text is cut into
/// words.
std::string config_text_of(const ModelFolder& source, const ModelConfig& config);

/// Exports `source` into `folder`, which must not exist or be empty; its parents are created. All
/// files are written into a folder beside it, which is renamed at the end and removed after an
/// error. `log` and the card describe the differences of transformers' own classes. Throws an
/// InputError for models that the format cannot represent (see exported_config, onnx_obstacle), for
/// a tokenizer with more tokens than the model has rows, for `softmax` of a model whose weights do
/// not fit it, for sentence_transformers without a tokenizer or with landmarks, and when the system
/// refuses. Throws an Error when files that are read back differ from the written ones.
ExportResult export_model(const ModelFolder& source, const std::filesystem::path& folder,
                          const ExportOptions& options, Log& log);

/// The configuration of an export. With `softmax`, and for models of that kind, transformers' own
/// class computes exact attention at any length, because segment_means_seq_len is num_landmarks.
/// That class has no sentence-order head. Throws an InputError with the export_obstacle for
/// ExportFormat::transformers.
ModelConfig exported_config(const ModelConfig& config, const ExportOptions& options);

/// The differences of transformers' own class from nystrom for this model, one sentence each.
std::vector<std::string> export_notes(const ModelConfig& exported);

}  // namespace nystrom
