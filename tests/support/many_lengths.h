// The allocations of a training whose steps have many lengths.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/allocator.h"

namespace nystrom::testing {

/// What an arena has reserved, in parts of its peak, after 1,000 steps of random lengths:
/// activations of several layers that the backward pass frees in reverse, beside temporaries and
/// tensors that stay.
inline double reserved_for_many_lengths(Device device) {
  constexpr std::int64_t kib = 1 << 10;
  Arena arena(device);
  std::minstd_rand random(7);
  std::vector<std::shared_ptr<void>> parameters;
  for (int i = 0; i < 40; ++i) parameters.push_back(arena.allocate(20 * kib * (1 + i % 5)));
  for (int step = 0; step < 1000; ++step) {
    const std::int64_t length = 1 + static_cast<std::int64_t>(random() % 2000);
    std::vector<std::shared_ptr<void>> kept;
    for (std::int64_t layer = 0; layer < 6; ++layer) {
      for (const std::int64_t width : {256, 768, 256, 64, 1024}) {
        const auto temporary = arena.allocate(length * width / 2);
        kept.push_back(arena.allocate(length * width));
      }
      kept.push_back(arena.allocate(64 * kib));  // of the landmarks, whatever the length
    }
    while (!kept.empty()) {
      const auto gradient = arena.allocate(length * 1024);
      kept.pop_back();
    }
  }
  const ArenaStatistics statistics = arena.statistics();
  return static_cast<double>(statistics.reserved_bytes) /
         static_cast<double>(statistics.peak_in_use_bytes);
}

}  // namespace nystrom::testing
