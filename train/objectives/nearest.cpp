#include "train/objectives/nearest.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {
namespace {

// Bounds the products that are in memory at once.
constexpr std::int64_t block_vectors = 4096, block_queries = 1024;

bool is_nearer(const Neighbour& a, const Neighbour& b) {
  return a.score != b.score ? a.score > b.score : a.key < b.key;
}

double product(const float* a, const float* b, std::int64_t width) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

NearestNeighbours::NearestNeighbours(Tensor queries, std::int64_t k)
    : queries_(std::move(queries)), k_(static_cast<std::size_t>(k)) {
  require(k >= 1 && queries_.rank() == 2, "NearestNeighbours: {} of queries {}", k,
          queries_.shape());
  best_.resize(static_cast<std::size_t>(queries_.dim(0)));
  const std::int64_t width = queries_.dim(1);
  for (std::int64_t q = 0; q < queries_.dim(0); ++q) {
    const float* const query = queries_.data<float>() + q * width;
    lengths_.push_back(std::sqrt(product(query, query, width)));
  }
}

void NearestNeighbours::add(const Tensor& vectors, std::span<const std::int64_t> keys) {
  require(vectors.rank() == 2 && vectors.dim(1) == queries_.dim(1) &&
              vectors.dim(0) == std::ssize(keys),
          "NearestNeighbours: vectors {} with {} keys for queries {}", vectors.shape(), keys.size(),
          queries_.shape());
  for (std::int64_t begin = 0; begin < vectors.dim(0); begin += block_vectors) {
    const std::int64_t end = std::min(begin + block_vectors, vectors.dim(0));
    const auto part =
        keys.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    for (std::int64_t first = 0; first < queries_.dim(0); first += block_queries)
      add_block(vectors.slice(0, begin, end), part, first);
  }
}

/// Compares vectors with block_queries queries from `first` on. Products in f32 select candidates.
void NearestNeighbours::add_block(const Tensor& vectors, std::span<const std::int64_t> keys,
                                  std::int64_t first) {
  const std::int64_t width = vectors.dim(1);
  const std::int64_t last = std::min(first + block_queries, queries_.dim(0));
  const Tensor products =
      linear(Var(queries_.slice(0, first, last)), Var(vectors)).value().contiguous();
  double longest = 0;
  for (std::int64_t i = 0; i < vectors.dim(0); ++i) {
    const float* const vector = vectors.data<float>() + i * width;
    longest = std::max(longest, product(vector, vector, width));
  }
  for (std::int64_t q = first; q < last; ++q) {
    std::vector<Neighbour>& heap = best_[static_cast<std::size_t>(q)];
    const float* const row = products.data<float>() + (q - first) * vectors.dim(0);
    // Larger than the rounding of a product in f32.
    const double slack = 1e-5 * lengths_[static_cast<std::size_t>(q)] * std::sqrt(longest);
    for (std::int64_t i = 0; i < vectors.dim(0); ++i) {
      if (heap.size() == k_ && row[i] < heap.front().score - slack) continue;
      const double exact =
          product(queries_.data<float>() + q * width, vectors.data<float>() + i * width, width);
      const Neighbour found{keys[static_cast<std::size_t>(i)], static_cast<float>(exact)};
      require_input(std::isfinite(found.score),
                    "the product of two vectors is {}; vectors of length 1 have none so large",
                    found.score);
      if (heap.size() == k_) {
        if (!is_nearer(found, heap.front())) continue;
        std::ranges::pop_heap(heap, is_nearer);
        heap.pop_back();
      }
      heap.push_back(found);
      std::ranges::push_heap(heap, is_nearer);
    }
  }
}

std::vector<std::vector<Neighbour>> NearestNeighbours::sorted() const {
  std::vector<std::vector<Neighbour>> result = best_;
  for (auto& neighbours : result) std::ranges::sort(neighbours, is_nearer);
  return result;
}

}  // namespace nystrom
