// The order of training: a permutation of the samples for each epoch, known at any place without
// the ones before.
#pragma once

#include <cstdint>

namespace nystrom {

/// Samples in random order, epoch after epoch. The order depends on size, seed and epoch alone; any
/// place costs O(1) time and memory, so that resuming costs nothing.
class SampleOrder {
 public:
  SampleOrder(std::int64_t size, std::uint64_t seed);

  /// The sample at `place` (0 … size − 1) of `epoch`.
  std::int64_t operator()(std::int64_t epoch, std::int64_t place) const;
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  int half_bits_;
};

}  // namespace nystrom
