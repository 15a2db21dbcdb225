// The possible content of a disk after a power loss, according to POSIX. A file's bytes are durable
// after a sync of the file, and a name after a sync of its folder. Unsynced changes may be present
// or missing, each independently and in any order. An unsynced write may be torn.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/faults/file_operations.h"

namespace nystrom::testing {

/// Paths and contents. Paths of folders end in '/'.
using Tree = std::map<std::string, std::string>;

enum class Unsynced { lost, kept, dropped, torn };

class DiskModel {
 public:
  /// Applies an operation. An operation on a missing path does nothing, so that a history can be
  /// replayed without some of its parts.
  void apply(const FileOperation& operation);
  Tree after_power_loss(Unsynced unsynced, std::mt19937& random) const;

 private:
  struct Write {
    std::int64_t offset;
    std::string bytes;
  };
  using Entries = std::map<std::string, int>;  // names to indices of nodes
  using Change = std::vector<std::pair<std::string, std::optional<int>>>;
  struct Node {
    bool folder = false;
    std::string durable;           // content of a file
    std::vector<Write> writes;     // not synced
    Entries now, durable_entries;  // of a folder
    std::vector<Change> changes;   // not synced, each completely or not at all
  };

  std::optional<int> find(const std::string& path) const;
  /// Returns the folder of `path` and the name in it.
  std::optional<std::pair<int, std::string>> place_of(const std::string& path) const;
  void add(const std::string& path, bool folder);
  void rename(const std::string& from, const std::string& to);
  void exchange(const std::string& a, const std::string& b);
  void change(int folder, const Change& edits);
  void collect(int node, const std::string& path, Unsynced unsynced, std::mt19937& random,
               Tree& tree) const;
  static std::string content_of(const Node& node, Unsynced unsynced, std::mt19937& random);

  std::vector<Node> nodes_{{true, "", {}, {}, {}, {}}};
};

}  // namespace nystrom::testing
