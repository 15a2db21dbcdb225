// Versions of third-party libraries, for `nystrom doctor` and error reports.
#pragma once

#include <string>
#include <vector>

namespace nystrom {

/// The name and the version of a library.
struct LibraryVersion {
  std::string name, version;
};

/// The versions of the libraries that core uses. For a shared library it is the loaded version, not
/// the one that the program was compiled with.
std::vector<LibraryVersion> core_library_versions();

}  // namespace nystrom
