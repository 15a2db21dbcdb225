// The direction of dependence: core ← autograd ← nn ← train and core ← data ← train.
#include <gtest/gtest.h>
#include "tests/support/places.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> allowed{
    {"core", {"core"}},
    {"autograd", {"core", "autograd"}},
    {"nn", {"core", "autograd", "nn"}},
    {"data", {"core", "data"}},
    {"train", {"core", "autograd", "nn", "data", "train"}},
};

/// "file:line includes what" for each include in `folder` that its layer may not see.
std::string forbidden_includes(const fs::path& root, const std::string& folder) {
  const std::string include = "#include \"";
  std::string found;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    std::string text;
    for (int line = 1; std::getline(file, text); ++line) {
      if (!text.starts_with(include)) continue;
      const std::string other = text.substr(include.size(), text.find('/') - include.size());
      if (allowed.at(folder).contains(other)) continue;
      found += fs::relative(entry.path(), root).string() + ":" + std::to_string(line) + " includes " + other + "\n";
    }
  }
  return found;
}

TEST(Layers, DependInOneDirection) {
  const fs::path root = source_folder();
  for (const auto& [folder, layers] : allowed) {
    EXPECT_EQ(fs::exists(root / folder) ? forbidden_includes(root, folder) : "", "");
  }
}

}  // namespace
}  // namespace nystrom::testing
