#include "train/cli/piped_inputs.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT: mkstemp is POSIX's
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"

namespace nystrom {
namespace {

/// The descriptor that an argument names, as FILE, --option=FILE or option=[FILE].
std::optional<int> descriptor_in(std::string_view word) {
  word.remove_prefix(std::min(word.find('=') + 1, word.size()));  // npos + 1 is 0
  if (word.starts_with('[') && word.ends_with(']')) word = word.substr(1, word.size() - 2);
  if (word == "/dev/stdin") return STDIN_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!word.starts_with(folder)) continue;
    const auto number = number_of<int>(word.substr(folder.size()));
    if (number && *number >= 0) return number;
  }
  return std::nullopt;
}

/// Whether the descriptor is open for reading, and neither a file nor a folder.
bool is_pipe(int descriptor) {
  struct stat status {};
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && ::fstat(descriptor, &status) == 0 &&
         !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

/// A new file below TMPDIR, or /tmp, whose name is gone: it goes with its last descriptor, however
/// the process ends.
Descriptor open_nameless_file() {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path folder = chosen && *chosen ? chosen : "/tmp";
  std::string name = (folder / "nystrom-XXXXXX").string();
  Descriptor file(::mkstemp(name.data()));
  require_input(file.is_open(),
                "{}: cannot make a temporary file: {}; set TMPDIR to a folder with room",
                printable_path(folder), std::strerror(errno));
  ::unlink(name.c_str());
  return file;
}

void copy(int descriptor, int file) {
  std::vector<char> buffer(std::size_t{1} << 16);
  while (true) {
    const ssize_t count = retry([&] { return ::read(descriptor, buffer.data(), buffer.size()); });
    require_input(count >= 0, "/dev/fd/{}: cannot read: {}", descriptor, std::strerror(errno));
    if (count == 0) return;
    const auto part = std::span(buffer).first(static_cast<std::size_t>(count));
    const bool kept = write_all(file, std::as_bytes(part));
    require_input(kept,
                  "/dev/fd/{}: cannot keep it in a temporary file: {}; set TMPDIR to a folder "
                  "with room",
                  descriptor, std::strerror(errno));
  }
}

}  // namespace

void read_piped_inputs(const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    const auto descriptor = descriptor_in(word);
    if (!descriptor || !is_pipe(*descriptor)) continue;  // or it is replaced already
    const Descriptor file = open_nameless_file();
    copy(*descriptor, file.get());
    const bool replaced = ::dup2(file.get(), *descriptor) >= 0;
    require_input(replaced, "/dev/fd/{}: cannot be replaced by a file: {}", *descriptor,
                  std::strerror(errno));
  }
}

}  // namespace nystrom
