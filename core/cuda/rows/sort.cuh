// A stable sort by a library.
#pragma once

#include <cstdint>

#include "core/view.h"

namespace nystrom::cuda {

/// Sorts `count` pairs stably by key, on the device of `like`. Keys are below 2^`bits`. The inputs
/// stay unchanged.
void sort_pairs(const ViewBase& like, const std::uint32_t* keys, const std::uint32_t* values,
                std::uint32_t* sorted_keys, std::uint32_t* sorted_values, std::int64_t count,
                int bits);

}  // namespace nystrom::cuda
