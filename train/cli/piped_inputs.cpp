#include "train/cli/piped_inputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/base/file_io.h"
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
    int number = -1;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data() + folder.size(), end, number);
    if (error == std::errc() && stop == end && number >= 0) return number;
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

void copy_to_file(int descriptor, const std::filesystem::path& path) {
  OutputFile file(path);
  std::vector<std::byte> buffer(std::size_t{1} << 16);
  while (true) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    require_input(count >= 0, "/dev/fd/{}: cannot read: {}", descriptor, std::strerror(errno));
    if (count == 0) break;
    file.write(std::span(buffer).first(static_cast<std::size_t>(count)));
  }
  file.commit();
}

}  // namespace

PipedInputs::PipedInputs(const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    const auto descriptor = descriptor_in(word);
    if (!descriptor || !is_pipe(*descriptor)) continue;  // or it is replaced already
    if (!folder_) folder_.emplace();
    const std::filesystem::path path = folder_->path() / std::to_string(*descriptor);
    copy_to_file(*descriptor, path);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool replaced = file >= 0 && ::dup2(file, *descriptor) >= 0;
    const std::string reason = std::strerror(errno);
    if (file >= 0) ::close(file);
    require_input(replaced, "/dev/fd/{}: cannot be replaced by a file: {}", *descriptor, reason);
  }
}

}  // namespace nystrom
