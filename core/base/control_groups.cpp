#include "core/base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace nystrom {
namespace {

using std::filesystem::path;

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The number in a file that holds only a number; nothing for "max".
std::optional<std::int64_t> number_of(const path& file) {
  std::ifstream text(file);
  std::int64_t number = 0;
  return text >> number ? std::optional(number) : std::nullopt;
}

/// Where Linux reports a resource of control groups.
struct Hierarchy {
  /// The mount point, and the text before the group's path in proc/self/cgroup.
  const char *mounted, *member;
};

/// The files for memory, for both versions.
struct MemoryHierarchy : Hierarchy {
  const char *limit, *used, *inactive_files, *active_files;
};
constexpr MemoryHierarchy memory_hierarchies[] = {
    {{"sys/fs/cgroup", "0::/"}, "memory.max", "memory.current", "inactive_file", "active_file"},
    {{"sys/fs/cgroup/unified", "0::/"},
     "memory.max",
     "memory.current",
     "inactive_file",
     "active_file"},
    {{"sys/fs/cgroup/memory", ":memory:/"},
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     "total_inactive_file",
     "total_active_file"}};

constexpr Hierarchy cpu_hierarchies[] = {{"sys/fs/cgroup", "0::/"},
                                         {"sys/fs/cgroup/unified", "0::/"},
                                         {"sys/fs/cgroup/cpu", ":cpu:/"},
                                         {"sys/fs/cgroup/cpu", ":cpu,cpuacct:/"},
                                         {"sys/fs/cgroup/cpu,cpuacct", ":cpu,cpuacct:/"},
                                         {"sys/fs/cgroup/cpuacct,cpu", ":cpuacct,cpu:/"}};

std::int64_t available_in_group(const path& group, const MemoryHierarchy& names) {
  const auto limit = number_of(group / names.limit), used = number_of(group / names.used);
  if (!limit || !used) return unlimited;
  // Cached file pages count as used, but can be reclaimed. The statistics lag behind and may report
  // more cached than used memory.
  const path statistics = group / "memory.stat";
  const std::int64_t files = number_in_file(statistics, names.inactive_files).value_or(0) +
                             number_in_file(statistics, names.active_files).value_or(0);
  return std::max<std::int64_t>(*limit - std::max<std::int64_t>(*used - files, 0), 0);
}

/// The process's group, relative to the mount point of the hierarchy; empty if unknown.
path own_group(const path& root, const Hierarchy& names) {
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(names.member);
    if (at != line.npos) return line.substr(at + std::string_view(names.member).size());
  }
  return {};
}

/// The folders of all groups that contain the process. In a container the own group may itself be
/// mounted, and its path does not exist there. A missing file sets no limit.
std::vector<path> groups_of(const path& root, const Hierarchy& names) {
  const path mounted = root / names.mounted;
  std::vector<path> groups = {mounted};
  for (path group = own_group(root, names); !group.empty(); group = group.parent_path())
    groups.push_back(mounted / group);
  return groups;
}

/// The quota of one group: "200000 100000" or "max 100000" in cpu.max, or the two files of version
/// 1, whose quota is -1 without a limit.
double quota_of(const path& group) {
  double quota = 0, period = 0;
  if (std::ifstream both(group / "cpu.max"); !(both >> quota >> period)) {
    quota = static_cast<double>(number_of(group / "cpu.cfs_quota_us").value_or(0));
    period = static_cast<double>(number_of(group / "cpu.cfs_period_us").value_or(0));
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

}  // namespace

std::optional<std::int64_t> number_in_file(const path& file, std::string_view key) {
  std::ifstream lines(file);
  std::string word;
  while (lines >> word) {
    std::int64_t number = 0;
    if (word == key && lines >> number) return number;
  }
  return {};
}

std::int64_t available_memory_bytes(const path& root) {
  const auto free_kib = number_in_file(root / "proc/meminfo", "MemAvailable:");
  std::int64_t bytes = free_kib ? *free_kib * 1024 : unlimited;
  for (const MemoryHierarchy& names : memory_hierarchies)
    for (const path& group : groups_of(root, names))
      bytes = std::min(bytes, available_in_group(group, names));
  return bytes;
}

std::int64_t memory_limit_bytes(const path& root) {
  std::int64_t bytes = unlimited;
  for (const MemoryHierarchy& names : memory_hierarchies)
    for (const path& group : groups_of(root, names))
      bytes = std::min(bytes, number_of(group / names.limit).value_or(unlimited));
  return bytes;
}

double cpu_quota(const path& root) {
  double quota = std::numeric_limits<double>::infinity();
  for (const Hierarchy& names : cpu_hierarchies)
    for (const path& group : groups_of(root, names)) quota = std::min(quota, quota_of(group));
  return quota;
}

}  // namespace nystrom
