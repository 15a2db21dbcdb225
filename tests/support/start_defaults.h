// The defaults of a run that starts from a folder, for tests that read only its options.
#pragma once

#include <string>

#include "train/config/config_io.h"
#include "train/state/model_folder.h"

namespace nystrom {

inline StartDefaults start_defaults(const std::string& from) {
  const StartFolder folder = open_start_folder(from);
  return {folder.config, trained_length(folder)};
}

}  // namespace nystrom
