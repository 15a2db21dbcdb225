// Strict JSON parsing, for config.json, the index of sharded weights and the safetensors metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace nystrom {

inline constexpr int max_json_depth = 32;

/// Converts the text of a number that is not an integer, or one beyond 64 bits.
using NumberReader = nlohmann::json (*)(std::string_view text);

/// Parses `text`. `read_number` converts numbers that are not integers of at most 64 bits; with
/// null they become the nearest doubles. Throws an InputError "source:line:column: …" for a syntax
/// error, invalid UTF-8, a duplicate key, a byte order mark or a NUL byte. Nesting deeper than
/// max_json_depth, more values than max_values, and anything but white space after the value, are
/// errors too.
nlohmann::json parse_json(std::string_view text, const std::string& source,
                          NumberReader read_number = nullptr, std::size_t max_values = SIZE_MAX);

/// Empties a tree from its leaves on, without allocating. nlohmann's destructors allocate, and end
/// the program where that fails.
void clear_tree(nlohmann::json& tree) noexcept;

/// A NumberReader for identifiers: integers of any length are texts, and others the nearest
/// doubles.
nlohmann::json keep_digits(std::string_view text);

/// parse_json of a file of at most `max_bytes`. Its path is the `source` in messages.
nlohmann::json read_json_file(const std::filesystem::path& path, std::size_t max_bytes);
/// The same for a file of settings: at most max_config_bytes (core/base/file_io.h).
nlohmann::json read_json_file(const std::filesystem::path& path);

/// The kind of a value, for a message: "a list", "a text", "true or false", "null", …
const char* json_kind(const nlohmann::json& value);

/// The largest count that JSON readers of all languages represent exactly.
inline constexpr std::int64_t max_json_count = std::int64_t{1} << 53;
/// `value` as a count. Throws an InputError that contains `name` unless `value` is a whole number
/// from 0 to max_json_count.
std::int64_t json_count(const nlohmann::json& value, const std::string& name);

/// A double from JSON, where null stands for NaN, as our writers do. Other values throw nlohmann's
/// type_error.
double number_or_nan(const nlohmann::json& value);

}  // namespace nystrom
