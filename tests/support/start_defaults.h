// The defaults of a run that starts from a folder, for tests that read only its options.
#pragma once

#include <string>

#include "train/config/config_io.h"
#include "train/state/model_folder.h"

namespace nystrom {

inline StartDefaults start_defaults(const std::string& from) {
  Log quiet(true);
  const ModelFolder folder = open_model(from, {}, quiet, HeadUse::replaceable);
  return {folder.config, trained_length(folder)};
}

}  // namespace nystrom
