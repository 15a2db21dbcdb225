// What a run takes from the folder of model.from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nn/model_config.h"

namespace nystrom {

/// The defaults of a run that starts from a folder: its model, and the most tokens of a sequence
/// that it was trained with.
struct StartDefaults {
  ModelConfig model;
  std::int64_t sequence_length = 0;
};

/// Reads them from the folder that model.from names. InputError where that is impossible.
using ReadStart = std::function<StartDefaults(const std::string& from)>;

}  // namespace nystrom
