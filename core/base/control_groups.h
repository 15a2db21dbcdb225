// The processors and memory that control groups of Linux (containers, batch systems) permit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace nystrom {

/// The number behind `key` in a file of the system whose lines are "KEY number …", such as
/// /proc/meminfo; nothing if the key is absent.
std::optional<std::int64_t> number_in_file(const std::filesystem::path& file, std::string_view key);

/// Bytes of memory that can be allocated now. It is the minimum over the machine and the control
/// groups (version 1 or 2) that contain the process. Cached file pages count as free. If the system
/// reports nothing, it is the largest number. `root` is the folder that contains Linux's proc and
/// sys.
std::int64_t available_memory_bytes(const std::filesystem::path& root = "/");

/// The smallest limit of memory of the control groups (version 1 or 2) that contain the process;
/// the largest number without one.
std::int64_t memory_limit_bytes(const std::filesystem::path& root = "/");

/// The processors that this process may use at a time, by the quotas of the control groups (version
/// 1 or 2) that contain it: 0.5 for half of one. Infinity without a quota.
double cpu_quota(const std::filesystem::path& root = "/");

}  // namespace nystrom
