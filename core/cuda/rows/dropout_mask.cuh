// Dropout masks on the device. core/rng.h defines them.
#pragma once

#include "core/cuda/device.cuh"
#include "core/rng.h"

namespace nystrom::cuda {

/// One dropout of the model in one step.
template <class A>
struct DropoutMask {
  PhiloxKey key;
  std::uint32_t site, threshold;
  A scale;

  DropoutMask() = default;  // no dropout: never used
  DropoutMask(const DropoutKey& k, double p)
      : key(philox_key(k.seed, k.step)),
        site(k.site),
        // An element is dropped if its word is below p · 2³².
        threshold(static_cast<std::uint32_t>(p * 4294967296.0)),
        scale(static_cast<A>(1 / (1 - p))) {}

  /// The words of elements 4 quad … 4 quad + 3 of a sample.
  NYSTROM_DEVICE PhiloxBlock words(std::int64_t sample, std::int64_t quad) const {
    const auto id = static_cast<std::uint64_t>(sample);
    return philox(key, {{static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(id),
                         static_cast<std::uint32_t>(id >> 32), site}});
  }
  /// The factor of an element: 0 or 1 / (1 − p).
  NYSTROM_DEVICE A factor(std::uint32_t word) const { return word < threshold ? A(0) : scale; }
};

}  // namespace nystrom::cuda
