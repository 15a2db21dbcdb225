#include "core/base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace nystrom {
namespace {

using std::filesystem::path;

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The number behind `key` in a file of lines "key number …"; nothing when it is not there.
std::optional<std::int64_t> number_in(const path& file, std::string_view key) {
  std::ifstream lines(file);
  std::string word;
  while (lines >> word) {
    std::int64_t number = 0;
    if (word == key && lines >> number) return number;
  }
  return {};
}

/// The same for a file that holds a number alone ("max" is none).
std::optional<std::int64_t> number_of(const path& file) {
  std::ifstream text(file);
  std::int64_t number = 0;
  return text >> number ? std::optional(number) : std::nullopt;
}

/// Where Linux tells the memory of control groups, in their two versions.
struct Hierarchy {
  const char *mounted,
      *member;  ///< its folder, and what stands before the group's path in proc/self/cgroup
  const char *limit, *used, *inactive_files, *active_files;
};
constexpr Hierarchy hierarchies[] = {
    {"sys/fs/cgroup", "0::/", "memory.max", "memory.current", "inactive_file", "active_file"},
    {"sys/fs/cgroup/unified", "0::/", "memory.max", "memory.current", "inactive_file",
     "active_file"},
    {"sys/fs/cgroup/memory", ":memory:/", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file", "total_active_file"}};

std::int64_t available_in_group(const path& group, const Hierarchy& names) {
  const auto limit = number_of(group / names.limit), used = number_of(group / names.used);
  if (!limit || !used) return unlimited;
  // Pages of files count as used, but make room when asked. The statistics lag behind: they may
  // have more of them than is used.
  const path statistics = group / "memory.stat";
  const std::int64_t files = number_in(statistics, names.inactive_files).value_or(0) +
                             number_in(statistics, names.active_files).value_or(0);
  return std::max<std::int64_t>(*limit - std::max<std::int64_t>(*used - files, 0), 0);
}

/// The process's group below where the hierarchy is mounted; empty where it is not told.
path own_group(const path& root, const Hierarchy& names) {
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(names.member);
    if (at != line.npos) return line.substr(at + std::string_view(names.member).size());
  }
  return {};
}

}  // namespace

std::int64_t available_memory_bytes(const path& root) {
  const auto free_kib = number_in(root / "proc/meminfo", "MemAvailable:");
  std::int64_t bytes = free_kib ? *free_kib * 1024 : unlimited;
  for (const Hierarchy& names : hierarchies) {
    const path mounted = root / names.mounted;
    // In a container the own group may be what is mounted, under a path that does not exist there:
    // a file that is missing limits nothing.
    path group = own_group(root, names);
    for (; !group.empty(); group = group.parent_path())
      bytes = std::min(bytes, available_in_group(mounted / group, names));
    bytes = std::min(bytes, available_in_group(mounted, names));
  }
  return bytes;
}

}  // namespace nystrom
