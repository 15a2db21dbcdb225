// Exact nearest neighbours: by blocks of products, without an index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace nystrom {

/// A vector and its product with a query: their cosine, if both have length 1.
struct Neighbour {
  std::int64_t key = 0;
  float score = 0;
};

/// The k vectors of a stream with the largest products with each query. The memory does not depend
/// on the number of vectors.
class NearestNeighbours {
 public:
  /// `queries` is [q, width] f32 on the CPU.
  NearestNeighbours(Tensor queries, std::int64_t k);

  /// Adds vectors [n, width] f32 with their keys, which are unique. A product is a sum in f64,
  /// rounded to f32, so that it does not depend on the block. Of equal products the smaller key
  /// comes first.
  void add(const Tensor& vectors, std::span<const std::int64_t> keys);

  /// At most k neighbours for each query, the nearest first.
  std::vector<std::vector<Neighbour>> sorted() const;

 private:
  void add_block(const Tensor& vectors, std::span<const std::int64_t> keys, std::int64_t first);

  Tensor queries_;
  std::size_t k_;
  std::vector<double> lengths_;               // of the queries
  std::vector<std::vector<Neighbour>> best_;  // heaps, the worst on top
};

}  // namespace nystrom
