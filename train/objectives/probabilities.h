// Probabilities from the scores of a model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nystrom {

/// Throws an InputError if a score of a model is NaN or infinite: what follows from it would be an
/// answer all the same.
void require_finite(std::span<const double> scores);

/// The softmax of scores, which require_finite.
std::vector<double> softmax_of(std::span<const double> scores);

/// The indices of the `count` largest numbers, or of all if there are fewer, largest first. Equal
/// ones are in the order of their indices.
std::vector<std::size_t> largest(std::span<const double> numbers, std::int64_t count);

}  // namespace nystrom
