#include "core/base/scratch_folder.h"

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/printable.h"
#include "core/base/require.h"

namespace nystrom {

ScratchFolder::ScratchFolder() {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path parent = chosen && *chosen ? chosen : "/tmp";
  std::string name = (parent / "nystrom-XXXXXX").string();
  const bool made = ::mkdtemp(name.data()) != nullptr;  // before the message reads errno
  require_input(
      made, "{}: cannot make a folder for temporary files: {}; set TMPDIR to a folder with room",
      printable_path(parent), std::strerror(errno));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace nystrom
