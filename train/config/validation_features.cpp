// The rules of pretraining on features.
#include <algorithm>
#include <array>
#include <map>

#include "train/config/config_io.h"
#include "train/config/validation.h"

namespace nystrom {
namespace {

/// Whether pretraining on features reads an option, or one that is not there.
bool is_read(const std::string& option) {
  constexpr std::array unread = {
      "tokenizer.",        "data.",           "pretraining.",    "masking.",
      "distillation.",     "embedding_loss.", "training.z_loss", "training.batch_schedule",
      "logging.fill_masks"};
  if (option == "data.sequence_length" || option == "masking.probability") return true;
  return std::ranges::none_of(unread, [&](const char* part) { return option.starts_with(part); });
}

}  // namespace

Problems validate_masked_features(const RunConfig& config) {
  Problems found;
  std::map<std::string, std::string> defaults;
  for (auto& [option, value] : option_values({})) defaults[option] = value;
  for (const auto& [option, value] : option_values(config))
    if (!is_read(option) && value != defaults[option])
      add_problem(found, {option, "task.kind"},
                  "{} is for pretraining on texts, and task.kind is features; leave it out",
                  option);
  if (config.model.embed_dim == 1)
    add_problem(found, {"model.embed_dim"},
                "model.embed_dim is 1, and a row is standardised over its numbers, so that one "
                "alone is always 0; give features of several numbers");
  return found;
}

}  // namespace nystrom
