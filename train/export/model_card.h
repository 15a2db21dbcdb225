// README.md of an exported model.
#pragma once

#include <string>
#include <vector>

#include "train/export/export_check.h"

namespace nystrom {

/// What a card tells.
struct ModelCard {
  std::string title;
  ModelConfig config;  ///< as exported
  std::int64_t parameters = 0;
  std::int64_t longest = 0;                   ///< tokens that the model takes at most
  bool has_tokenizer = false;                 ///< lies in the folder
  std::string mask_token;                     ///< its name, empty when there is none
  std::vector<std::string> notes;             ///< see export_notes
  std::vector<ExportDifference> differences;  ///< empty: not measured
};

/// Markdown with YAML front matter: what the model is, how transformers and nystrom run it, and how
/// far these are apart. The Python code in it runs in the folder of the card.
std::string model_card(const ModelCard& card);

}  // namespace nystrom
