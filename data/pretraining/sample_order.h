// The order of training samples, with random access: the source of each, and a permutation of each
// source's samples for each epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nystrom {

/// Random orders of the samples, one for each epoch. They depend on size, seed and epoch only. Each
/// position costs O(1) time and memory, so resuming costs nothing.
class SampleOrder {
 public:
  /// The orders of `size` samples under `seed`.
  SampleOrder(std::int64_t size, std::uint64_t seed);

  /// The sample at a position, from 0: that at place position mod size of epoch position / size.
  std::int64_t operator()(std::int64_t position) const;
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  int half_bits_;
};

/// Which of several sources each place of the training data is drawn from. In every block of places
/// each source has its share of them, to one; their order within a block is random. It depends on
/// weights, seed and place only.
class SourceOrder {
 public:
  /// The order of sources with these weights, under `seed`. Throws an InputError if one of them has
  /// less than 1e-10 of the weight of all.
  SourceOrder(std::span<const double> weights, std::uint64_t seed);

  /// A draw: its source, and its number among the draws from that source, from 0.
  struct Draw {
    std::size_t source;
    std::int64_t number;
  };
  /// The draw at `place`, from 0.
  Draw operator()(std::int64_t place) const;

 private:
  /// The draws from the first `sources` sources before a block.
  std::int64_t draws_before(std::int64_t block, std::size_t sources) const;

  std::vector<double> shares_;  // of the first source, of the first two, …
  std::int64_t block_;          // places of a block
  SampleOrder order_;           // of the places of each block
};

}  // namespace nystrom
