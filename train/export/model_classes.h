// The classes with which transformers runs every model of nystrom.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/embedded_file.h"

namespace nystrom {

/// configuration_nystrom.py and modeling_nystrom.py of python/export/. The build generates the
/// definition.
std::span<const EmbeddedFile> model_classes();

/// The files of `folder` that have the name of a model class and another text: "a.py and b.py".
/// They were edited, or are of another version. Empty if there are none.
std::string foreign_classes(const std::filesystem::path& folder);

}  // namespace nystrom
