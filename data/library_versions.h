// As core/library_versions.h, for the libraries that read text and write shards.
#pragma once

#include <vector>

#include "core/library_versions.h"

namespace nystrom {

std::vector<LibraryVersion> data_library_versions();

}  // namespace nystrom
