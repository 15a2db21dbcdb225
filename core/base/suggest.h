// "Did you mean": the known word nearest to a mistyped one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nystrom {

/// The number of letters to insert, delete, replace or swap with their neighbour to get from `a` to
/// `b`, upper and lower case being equal; nothing if it is more than `limit`.
std::optional<int> edit_distance(std::string_view a, std::string_view b, int limit);

/// The word of `known` nearest to `word` (the first of equals); nothing if none is near: within a
/// quarter of the longer word's length, and one letter in any case, but never all. Words over 256
/// letters are near to nothing.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// "; did you mean 'x'?" for the end of a message, or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace nystrom
