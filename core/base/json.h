// Strict JSON: how config.json, the index of sharded weights and the safetensors metadata are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace nystrom {

inline constexpr int max_json_depth = 32;

/// Reads a number that is no integer, from its text.
using NumberReader = double (*)(std::string_view text);

/// `text` as JSON; numbers that are no integers by `read_number`, or the nearest doubles where it
/// is null. InputError "source:line:column: what" for a syntax error, bytes that are not UTF-8, a
/// duplicate key, nesting deeper than max_json_depth, a byte order mark, a NUL byte, or anything
/// after the value but white space.
nlohmann::json parse_json(std::string_view text, const std::string& source,
                          NumberReader read_number = nullptr);

/// parse_json of a file, which is also the `source` in messages, of at most `max_bytes`.
nlohmann::json read_json_file(const std::filesystem::path& path, std::size_t max_bytes);
/// The same for a file of settings: at most max_config_bytes (core/base/file_io.h).
nlohmann::json read_json_file(const std::filesystem::path& path);

/// The largest count that a JSON reader of any language holds exactly.
inline constexpr std::int64_t max_json_count = std::int64_t{1} << 53;
/// `value` as a count. InputError, calling it `name`, unless it is a whole number from 0 to
/// max_json_count.
std::int64_t json_count(const nlohmann::json& value, const std::string& name);

/// The number that a JSON writer here makes of a double: null is NaN, for which JSON has no word.
/// nlohmann's type_error for anything else.
double number_or_nan(const nlohmann::json& value);

}  // namespace nystrom
