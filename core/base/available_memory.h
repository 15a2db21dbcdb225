// How much memory is free to take now.
#pragma once

#include <cstdint>
#include <filesystem>

namespace nystrom {

/// Bytes of memory that are free to take now: of the machine, or of the control group (version 1 or
/// 2) that the process lives in or of a group around it, whichever leaves least. Pages of files
/// count as free. The largest number where the system tells nothing. `root`: the folder below which
/// Linux's proc and sys lie.
std::int64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace nystrom
