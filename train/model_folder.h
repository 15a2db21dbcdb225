// A model folder as programs use it: configuration and weights in one call.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/model.h"

namespace nystrom {

/// The configuration of a Hugging Face folder with `--set model.…` overrides applied. InputError for anything that cannot be built.
ModelConfig read_model_config(const std::filesystem::path& folder, const std::vector<std::string>& overrides);

/// The model with its weights: strict, see load_weights and SafetensorsFile.
std::unique_ptr<Model> load_model(const std::filesystem::path& folder, const ModelConfig& config, DType dtype, StoreMode mode,
                                  Device device = cpu_device);

/// One line about what `config` will compute that a reader of the folder might not expect (Hugging Face's semantics, or its exact case);
/// empty when there is nothing to say.
std::string semantics_notice(const ModelConfig& config);

}  // namespace nystrom
