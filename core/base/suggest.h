// Suggestions for mistyped words: the nearest known word.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nystrom {

/// The edit distance between `a` and `b`: letters to insert, delete, replace or swap with their
/// neighbour. Case is ignored. Nothing if the distance exceeds `limit`.
std::optional<int> edit_distance(std::string_view a, std::string_view b, int limit);

/// The word of `known` nearest to `word`, the first of equals; nothing if none is near. The
/// distance may be a quarter of the longer word's length, but at least one letter. A word whose
/// letters all differ is not near, and neither is a word over 256 letters.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// "; did you mean 'x'?" for the end of a message; empty without a near word.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace nystrom
