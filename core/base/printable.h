// Text from outside, fit for a message.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace nystrom {

/// `text` with control bytes and bytes that are not UTF-8 as \xNN; beyond `max_bytes` it is cut and
/// ends in "…".
std::string printable(std::string_view text, std::size_t max_bytes = 160);
/// As above for a path, uncut.
std::string printable_path(const std::filesystem::path& path);

}  // namespace nystrom
