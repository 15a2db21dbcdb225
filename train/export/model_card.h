// The README.md of an exported model.
#pragma once

#include <string>
#include <vector>

#include "train/export/export_verification.h"
#include "train/state/architecture.h"

namespace nystrom {

/// The content of a model card.
struct ModelCard {
  std::string title;
  ModelConfig config;                          ///< as exported
  const Architecture* architecture = nullptr;  ///< of BERT's family, as which the folder is written
  std::int64_t parameters = 0;
  std::int64_t longest = 0;                   ///< the longest input in tokens
  bool has_classes = false;                   ///< whether the folder has model_classes()
  bool has_onnx = false;                      ///< whether it has onnx/model.onnx
  bool makes_vectors = false;                 ///< whether it has sentence-transformers' files
  double threshold = 0.5;                     ///< of multi_label: task.threshold
  bool has_tokenizer = false;                 ///< whether the folder has a tokenizer
  std::string mask_token;                     ///< its text; empty if there is none
  std::vector<std::string> notes;             ///< see export_notes
  std::vector<ExportDifference> differences;  ///< empty if not measured
};

/// Whether transformers' own class runs Nyström attention, which takes rows of one length.
bool takes_one_length(const ModelCard& card);

/// The card in Markdown with YAML front matter: a description of the model, its use with
/// transformers and nystrom, and the differences between these. The Python code in it runs in the
/// card's folder, and so do its commands if they name the folder.
std::string model_card(const ModelCard& card);

}  // namespace nystrom
