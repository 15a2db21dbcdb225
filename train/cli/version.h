// The text of nystrom --version.
#pragma once

#include <string>

namespace nystrom {

/// Four lines: the version; the commit of the sources, with "-dirty" if they were changed, or
/// "unknown" outside a repository; the vector level in use here; and whether this build has CUDA
/// and this machine a GPU for it.
std::string version_text();

}  // namespace nystrom
