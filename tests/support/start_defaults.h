// The defaults of a run that starts from a folder, for tests that read only its options.
#pragma once

#include <string>

#include "train/config/config_io.h"
#include "train/state/model_folder.h"

namespace nystrom {

inline StartDefaults start_defaults(const std::string& from) {
  return defaults_from(open_start_folder(from));
}

}  // namespace nystrom
