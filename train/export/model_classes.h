// The classes with which transformers runs every model of nystrom.
#pragma once

#include "core/base/embedded_file.h"

namespace nystrom {

/// configuration_nystrom.py and modeling_nystrom.py of python/export/. The build generates the
/// definition.
std::span<const EmbeddedFile> model_classes();

}  // namespace nystrom
