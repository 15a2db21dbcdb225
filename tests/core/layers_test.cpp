// Checks that includes follow docs/architecture.md: its rooms and the direction of its arrows.
#include <gtest/gtest.h>
#include "tests/support/places.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

struct Room {
  std::string folder;
  std::set<std::string> may_include;  // besides itself and core/base
};

const std::vector<Room>& rooms() {
  static const std::vector<Room> all = {
      {"core/base", {}},
      {"core", {}},
      {"autograd", {"core"}},
      {"nn", {"core", "autograd"}},
      {"data", {"core"}},
      {"data/hdf5", {"core"}},
      {"data/text", {"core"}},
      {"data/tokenizers", {"core", "data/text"}},
      {"data/shards", {"core", "data/hdf5", "data/tokenizers"}},
      {"data/pretraining", {"core", "data/shards", "data/tokenizers"}},
      {"data/tasks", {"core", "data/hdf5", "data/text", "data/tokenizers", "data/pretraining"}},
  };
  return all;
}

/// The rooms of train/. Each may include the earlier rooms that it names, and all of core, nn and
/// data.
const std::vector<Room>& rooms_of_train() {
  static const std::vector<Room> all = {
      {"optim", {}},
      {"config", {"optim"}},
      {"distributed", {}},
      {"state", {"optim", "config", "distributed"}},
      {"loop", {"optim", "config", "distributed", "state"}},
      {"objectives", {"optim", "config", "distributed", "state", "loop"}},
      {"export", {"config", "state", "loop", "objectives"}},
      {"plan", {"optim", "config", "distributed", "loop"}},
      {"report", {"config", "state", "loop", "objectives"}},
      {"cli",
       {"optim", "config", "distributed", "state", "loop", "objectives", "export", "plan",
        "report"}},
  };
  return all;
}

std::map<std::string, std::set<std::string>> allowed_includes() {
  std::map<std::string, std::set<std::string>> allowed;
  std::set<std::string> below_train;
  for (const Room& room : rooms()) {
    allowed[room.folder] = room.may_include;
    below_train.insert(room.folder);
  }
  for (const Room& room : rooms_of_train()) {
    auto& set = allowed["train/" + room.folder] = below_train;
    for (const std::string& other : room.may_include) set.insert("train/" + other);
  }
  for (auto& [folder, set] : allowed) set.insert({folder, "core/base"});
  return allowed;
}

/// The room of a path: the longest room that is a prefix of it, or an empty text.
std::string room_of(std::string path, const std::map<std::string, std::set<std::string>>& allowed) {
  while (!path.empty() && !allowed.contains(path)) path = fs::path(path).parent_path().string();
  return path;
}

/// Returns "file:line includes room" for each include of `file` that its room must not use.
std::string forbidden_includes(const fs::path& root, const std::string& file,
                               const std::map<std::string, std::set<std::string>>& allowed) {
  const std::string include = "#include \"";
  const std::string room = room_of(file, allowed);
  if (room.empty()) return file + " lies in no room\n";
  std::string found;
  std::ifstream stream(root / file);
  std::string text;
  for (int line = 1; std::getline(stream, text); ++line) {
    if (!text.starts_with(include)) continue;
    const std::string other =
        room_of(text.substr(include.size(), text.rfind('"') - include.size()), allowed);
    if (allowed.at(room).contains(other)) continue;
    found += file + ":" + std::to_string(line) + " includes " +
             (other.empty() ? "no room" : other) + "\n";
  }
  return found;
}

TEST(Layers, DependInOneDirection) {
  const fs::path root = source_folder();
  const auto allowed = allowed_includes();
  const std::set<std::string> endings = {".h", ".cpp", ".cu", ".cuh"};
  for (const char* layer : {"core", "autograd", "nn", "data", "train"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / layer)) {
      if (!endings.contains(entry.path().extension().string())) continue;
      EXPECT_EQ(forbidden_includes(root, fs::relative(entry.path(), root).string(), allowed), "");
    }
  }
}

}  // namespace
}  // namespace nystrom::testing
