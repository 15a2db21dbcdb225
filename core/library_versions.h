// Which versions of other people's libraries run here: for `nystrom doctor` and reports of errors.
#pragma once

#include <string>
#include <vector>

namespace nystrom {

struct LibraryVersion {
  std::string name, version;
};

/// Of the libraries that core calls. A shared library tells what is loaded, not what was compiled
/// against.
std::vector<LibraryVersion> core_library_versions();

}  // namespace nystrom
