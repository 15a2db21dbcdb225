// The order of training samples: a permutation for each epoch, with random access.
#pragma once

#include <cstdint>

namespace nystrom {

/// Random orders of the samples, one for each epoch. They depend on size, seed and epoch only. Each
/// position costs O(1) time and memory, so resuming costs nothing.
class SampleOrder {
 public:
  /// The orders of `size` samples under `seed`.
  SampleOrder(std::int64_t size, std::uint64_t seed);

  /// The sample at `place` (0 … size − 1) of `epoch`.
  std::int64_t operator()(std::int64_t epoch, std::int64_t place) const;
  /// The number of samples.
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  int half_bits_;
};

}  // namespace nystrom
