// The one use of a library's sort.
#pragma once

#include <cstdint>

#include "core/view.h"

namespace nystrom::cuda {

/// Sorts `count` pairs by key, stably, on the device of `like`; keys are below 2^`bits`. Inputs are
/// left as they are.
void sort_pairs(const ViewBase& like, const std::uint32_t* keys, const std::uint32_t* values,
                std::uint32_t* sorted_keys, std::uint32_t* sorted_values, std::int64_t count,
                int bits);

}  // namespace nystrom::cuda
