// A caching memory arena for each device. From the third training step on, no memory is requested
// from the system.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device.h"

namespace nystrom {

/// The memory use of an arena.
struct ArenaStatistics {
  std::int64_t in_use_bytes = 0;        ///< bytes held by live tensors
  std::int64_t peak_in_use_bytes = 0;   ///< largest in_use_bytes since the last reset_peak
  std::int64_t reserved_bytes = 0;      ///< bytes obtained from the system: in use and cached
  std::int64_t system_allocations = 0;  ///< allocation calls to the system so far
};

/// An allocator that keeps freed blocks for reuse. The best fitting one is used, or its first part;
/// free neighbours join. Much more than was ever used goes back to the system, and all of it when
/// that refuses memory. If this does not help, an InputError lists the largest holders.
/// Thread-safe. Blocks are 64-byte aligned.
class Arena {
 public:
  /// The arena of `device`. It exists until the program ends.
  static Arena& of(Device device);

  /// A separate arena; use of() to share one.
  explicit Arena(Device device);
  ~Arena();

  /// A block of at least `bytes` bytes. It returns to the arena with its last owner.
  std::shared_ptr<void> allocate(std::int64_t bytes);
  /// The current memory use.
  ArenaStatistics statistics() const;
  /// Sets peak_in_use_bytes to the current use.
  void reset_peak();
  /// Returns all cached blocks to the system.
  void release_cache();
  /// Limits the memory that the arena reserves from the system to `bytes`. The CPU's initial limit
  /// is the memory that was available when its arena was created.
  void set_limit(std::int64_t bytes);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A label for blocks that this thread allocates while the object lives. The out-of-memory table
/// shows it.
class AllocationLabel {
 public:
  /// Sets the label of this thread. The destructor restores the previous one.
  explicit AllocationLabel(std::string label);
  ~AllocationLabel();
  AllocationLabel(const AllocationLabel&) = delete;
  AllocationLabel& operator=(const AllocationLabel&) = delete;

 private:
  std::string previous_;
};

}  // namespace nystrom
