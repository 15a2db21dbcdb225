// The defaults that a run takes from the folder of model.from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nn/model_config.h"

namespace nystrom {

/// The defaults of a run that starts from a folder: the folder's model, and the maximum number of
/// tokens in a sequence of its training.
struct StartDefaults {
  ModelConfig model;
  std::int64_t sequence_length = 0;
};

/// Reads the defaults from the folder `from`, the value of model.from. Throws an InputError if that
/// fails.
using ReadStart = std::function<StartDefaults(const std::string& from)>;

}  // namespace nystrom
