#include "core/base/control_groups.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

using Files = std::map<std::string, std::string>;

/// What `read` gives on a machine whose proc and sys contain only `files`.
template <class T>
T read_with(const Files& files, T (*read)(const std::filesystem::path&)) {
  const TemporaryFolder root;
  for (const auto& [name, text] : files) write_bytes(root / name, text);
  return read(root.path());
}

std::int64_t available_with(const Files& files) { return read_with(files, available_memory_bytes); }
std::int64_t limit_with(const Files& files) { return read_with(files, memory_limit_bytes); }
double quota_with(const Files& files) { return read_with(files, cpu_quota); }

const std::string v1 = "sys/fs/cgroup/memory/", v2 = "sys/fs/cgroup/";

TEST(AvailableMemory, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(available_with({{"proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    3000 kB\n"}}),
            3000 * 1024);
  EXPECT_EQ(available_with({}), std::numeric_limits<std::int64_t>::max());
}

TEST(AvailableMemory, IsWhatTheMountedGroupLeaves) {
  EXPECT_EQ(available_with({{v2 + "memory.max", "1000"},
                            {v2 + "memory.current", "700"},
                            {v2 + "memory.stat", "inactive_file 40\nactive_file 2\n"}}),
            342);
  EXPECT_EQ(
      available_with(
          {{v1 + "memory.limit_in_bytes", "1000"},
           {v1 + "memory.usage_in_bytes", "700"},
           {v1 + "memory.stat",
            "inactive_file 1\nactive_file 1\ntotal_inactive_file 40\ntotal_active_file 2\n"}}),
      342);
}

TEST(AvailableMemory, IsNothingBeyondTheLimit) {
  EXPECT_EQ(available_with({{v2 + "memory.max", "1000"}, {v2 + "memory.current", "1200"}}), 0);
}

TEST(AvailableMemory, IsTheMachinesInAGroupWithoutLimit) {
  const std::string meminfo = "MemAvailable: 3000 kB\n";
  EXPECT_EQ(
      available_with(
          {{"proc/meminfo", meminfo}, {v2 + "memory.max", "max"}, {v2 + "memory.current", "700"}}),
      3000 * 1024);
  // The statistics lag behind. After a removal of files they can report more cached pages than used
  // memory.
  EXPECT_EQ(available_with({{"proc/meminfo", meminfo},
                            {v1 + "memory.limit_in_bytes", "9223372036854771712"},
                            {v1 + "memory.usage_in_bytes", "20000"},
                            {v1 + "memory.stat", "total_inactive_file 800000000\n"}}),
            3000 * 1024);
}

TEST(AvailableMemory, IsWhatTheOwnGroupOrOneAroundItLeaves) {
  const Files slurm = {{"proc/self/cgroup", "0::/job_1/step_0\n"},
                       {v2 + "job_1/memory.max", "500"},
                       {v2 + "job_1/memory.current", "100"},
                       {v2 + "job_1/step_0/memory.max", "max"},
                       {v2 + "job_1/step_0/memory.current", "100"}};
  EXPECT_EQ(available_with(slurm), 400);
  const Files inner = {{"proc/self/cgroup", "9:cpu:/a\n4:memory:/a/b\n0::/\n"},
                       {v1 + "a/memory.limit_in_bytes", "500"},
                       {v1 + "a/memory.usage_in_bytes", "100"},
                       {v1 + "a/b/memory.limit_in_bytes", "300"},
                       {v1 + "a/b/memory.usage_in_bytes", "100"}};
  EXPECT_EQ(available_with(inner), 200);
}

TEST(MemoryLimit, IsTheSmallestOfTheGroups) {
  EXPECT_EQ(limit_with({{v2 + "memory.max", "max"}}), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(limit_with({{"proc/self/cgroup", "0::/job/step\n"},
                        {v2 + "job/memory.max", "500"},
                        {v2 + "job/step/memory.max", "max"}}),
            500);
  EXPECT_EQ(limit_with({{"proc/self/cgroup", "4:memory:/a\n"},
                        {v1 + "memory.limit_in_bytes", "9223372036854771712"},
                        {v1 + "a/memory.limit_in_bytes", "700"}}),
            700);
}

TEST(CpuQuota, IsThatOfTheGroupAndThoseAroundIt) {
  EXPECT_EQ(quota_with({}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(quota_with({{v2 + "cpu.max", "max 100000\n"}}),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(quota_with({{v2 + "cpu/cpu.cfs_period_us", "100000\n"}}),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(quota_with({{v2 + "cpu.max", "150000 100000\n"}}), 1.5);
  EXPECT_EQ(quota_with({{"proc/self/cgroup", "0::/a/b\n"},
                        {v2 + "a/cpu.max", "200000 100000\n"},
                        {v2 + "a/b/cpu.max", "300000 100000\n"}}),
            2);
  for (const std::string folder : {"cpu", "cpu,cpuacct", "cpuacct,cpu"}) {
    EXPECT_EQ(quota_with({{v2 + folder + "/cpu.cfs_quota_us", "50000\n"},
                          {v2 + folder + "/cpu.cfs_period_us", "100000\n"}}),
              0.5)
        << folder;
    EXPECT_EQ(quota_with({{"proc/self/cgroup", "3:" + folder + ":/box\n"},
                          {v2 + folder + "/cpu.cfs_quota_us", "-1\n"},
                          {v2 + folder + "/cpu.cfs_period_us", "100000\n"},
                          {v2 + folder + "/box/cpu.cfs_quota_us", "25000\n"},
                          {v2 + folder + "/box/cpu.cfs_period_us", "100000\n"}}),
              0.25)
        << folder;
  }
}

}  // namespace
}  // namespace nystrom::testing
