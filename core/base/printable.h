// Escaping of external text for messages.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace nystrom {

/// `text` with control bytes and invalid UTF-8 as \xNN, and with line separators and characters
/// without width as \uNNNN. Text beyond `max_bytes` is cut and ends in "…".
std::string printable(std::string_view text, std::size_t max_bytes = 160);
/// The same for a path, without cutting.
std::string printable_path(const std::filesystem::path& path);
/// A path for JSON, which holds UTF-8: as it is, or else as printable_path.
std::string json_path(const std::filesystem::path& path);

}  // namespace nystrom
