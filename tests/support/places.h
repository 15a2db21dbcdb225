// Where the sources and the build lie. One unit knows, so that the others are compiled once for all
// copies of the repository.
#pragma once

#include <filesystem>

namespace nystrom::testing {

/// Of the sources, or where the environment's NYSTROM_SOURCE_DIR says: a bundle's tests run on
/// other machines.
std::filesystem::path source_folder();
std::filesystem::path build_folder();

}  // namespace nystrom::testing
