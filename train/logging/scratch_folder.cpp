#include "train/logging/scratch_folder.h"

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's

#include <cerrno>
#include <cstring>
#include <string>

#include "core/check.h"

namespace nystrom {

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "nystrom-XXXXXX").string();
  require_input(::mkdtemp(name.data()) != nullptr,
                "{}: cannot make a folder: {}; set TMPDIR to where there is room", name,
                std::strerror(errno));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace nystrom
