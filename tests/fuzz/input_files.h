// Turns an input of a fuzz target into the file or the folder that the reader under test opens.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom::testing {

/// A file in memory with its own path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0 ||
        write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// A folder in memory that is filled again for each input. An input consists of file contents, each
/// after a line "=== NAME". "=== NAME/" creates a folder. Only names given by the target are
/// written, so no input can write outside the folder.
class InputFolder {
 public:
  explicit InputFolder(std::initializer_list<std::string_view> names) : names_(names) {
    std::string pattern = "/dev/shm/nystrom-fuzz-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~InputFolder() { std::filesystem::remove_all(path_); }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void fill(std::string_view input) {
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      std::filesystem::remove_all(entry.path());
    constexpr std::string_view mark = "\n=== ";
    std::size_t at =
        input.starts_with(mark.substr(1)) ? mark.size() - 1 : skip(input.find(mark), mark.size());
    while (at < input.size()) {
      const std::size_t line_end = std::min(input.find('\n', at), input.size());
      // The line feed before the next mark belongs to the mark, even after an empty file.
      const std::size_t next = std::min(input.find(mark, line_end), input.size());
      const std::size_t begin = std::min(line_end + 1, next);
      write_file(input.substr(at, line_end - at), input.substr(begin, next - begin));
      at = next + mark.size();
    }
  }

 private:
  static std::size_t skip(std::size_t at, std::size_t count) {
    return at == std::string_view::npos ? at : at + count;
  }

  void write_file(std::string_view name, std::string_view bytes) const {
    if (std::ranges::find(names_, name) == names_.end()) return;
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    if (name.ends_with('/') || std::filesystem::is_directory(file)) return;
    std::ofstream(file, std::ios::binary) << bytes;
  }

  std::vector<std::string_view> names_;
  std::filesystem::path path_;
};

}  // namespace nystrom::testing
