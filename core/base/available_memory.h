// The amount of free memory.
#pragma once

#include <cstdint>
#include <filesystem>

namespace nystrom {

/// Bytes of memory that can be allocated now. It is the minimum over the machine and the control
/// groups (version 1 or 2) that contain the process. Cached file pages count as free. If the system
/// reports nothing, it is the largest number. `root` is the folder that contains Linux's proc and
/// sys.
std::int64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace nystrom
