// A separate folder for each test, and helpers to read and write the bytes of its files.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/error.h"

namespace nystrom {

/// Returns the message of the InputError that `f` throws, or "no error".
template <class F>
std::string input_error(F&& f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

/// A new empty folder for the running test, with a unique name. It is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name =
        std::string("nystrom-") + test->test_suite_name() + "-" + test->name() + "-XXXXXX";
    for (char& c : name)
      if (c == '/') c = '-';
    name = (std::filesystem::canonical(::testing::TempDir()) / name).string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::filesystem::filesystem_error(name, {errno, std::generic_category()});
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  /// `text` with DIR in place of the folder's path.
  std::string with_dir(std::string text) const {
    const std::string path = path_.string();
    for (std::size_t at; (at = text.find(path)) != text.npos;) text.replace(at, path.size(), "DIR");
    return text;
  }

 private:
  std::filesystem::path path_;
};

/// A test with a folder of its own.
class FolderTest : public ::testing::Test {
 protected:
  /// The message of the InputError that `f` throws, with DIR for the folder, or "no error".
  template <class F>
  std::string error_in_dir(const F& f) const {
    return folder_.with_dir(input_error(f));
  }

  TemporaryFolder folder_;
};

/// Makes the folder of the file too.
inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The names in a folder, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// The paths of all files and folders below a folder, sorted.
inline std::vector<std::string> paths_below(const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  return paths;
}

}  // namespace nystrom
