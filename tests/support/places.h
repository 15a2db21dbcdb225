// The paths of the sources and of the build. Only one unit contains them, so compiled objects of
// the others are shared by all copies of the repository.
#pragma once

#include <filesystem>

namespace nystrom::testing {

/// The folder of the sources, or the environment's NYSTROM_SOURCE_DIR: tests of a bundle run on
/// other machines.
std::filesystem::path source_folder();
std::filesystem::path build_folder();

}  // namespace nystrom::testing
