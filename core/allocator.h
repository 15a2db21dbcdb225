// Caching arena: one a device, so that a training step after the second asks the system for
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device.h"

namespace nystrom {

struct ArenaStatistics {
  std::int64_t in_use_bytes = 0;        ///< held by live tensors
  std::int64_t peak_in_use_bytes = 0;   ///< largest in_use_bytes since the last reset_peak
  std::int64_t reserved_bytes = 0;      ///< obtained from the system: in use and cached
  std::int64_t system_allocations = 0;  ///< calls to the system so far
};

/// Hands out blocks of rounded sizes, keeps freed ones and reuses the best fitting (at most 1/8
/// larger than asked). When the system refuses, the cache is released and the request tried once
/// more; then an InputError lists the largest holders. Thread-safe. Blocks are 64-byte aligned.
class Arena {
 public:
  /// The arena of `device`, alive until the program ends.
  static Arena& of(Device device);

  explicit Arena(Device device);
  ~Arena();

  /// A block of at least `bytes` bytes that returns to the arena with its last owner.
  std::shared_ptr<void> allocate(std::int64_t bytes);
  ArenaStatistics statistics() const;
  void reset_peak();
  /// Gives every cached block back to the system.
  void release_cache();
  /// Refuses to reserve more than `bytes` from the system. At first, on the CPU: what was available
  /// when the arena was made.
  void set_limit(std::int64_t bytes);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// While alive, blocks allocated by this thread are attributed to `label` in the out-of-memory
/// table.
class AllocationLabel {
 public:
  explicit AllocationLabel(std::string label);
  ~AllocationLabel();
  AllocationLabel(const AllocationLabel&) = delete;
  AllocationLabel& operator=(const AllocationLabel&) = delete;

 private:
  std::string previous_;
};

}  // namespace nystrom
