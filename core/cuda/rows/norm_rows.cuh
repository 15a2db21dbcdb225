// Rows in a warp's registers and their dropout, for layer normalisation.
#pragma once

#include "core/cuda/rows/dropout_mask.cuh"

namespace nystrom::cuda {
namespace {

/// A row in a warp's registers: Packs times V neighbours a lane. Rows may be shorter.
template <class T, int V, int Packs>
struct Row {
  using A = accumulate_t<T>;
  A value[Packs][V] = {};  // zeros after the end

  /// Calls f(value, column) for each number of the row that this lane holds.
  template <class F>
  NYSTROM_DEVICE void each(std::int64_t n, const F& f) {
    NYSTROM_UNROLL
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t first = (p * warp_size + lane_index()) * V;
      if (first >= n) continue;
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) f(value[p][i], first + i);
    }
  }
  /// Calls f(value, number of `row` at its column, number of `other`), which are read as packs.
  template <class F>
  NYSTROM_DEVICE void each_with(const T* row, const T* other, std::int64_t n, const F& f) {
    NYSTROM_UNROLL
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t first = (p * warp_size + lane_index()) * V;
      if (first >= n) continue;
      const auto a = load_pack<V>(row + first), b = load_pack<V>(other + first);
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) f(value[p][i], load(a.value[i]), load(b.value[i]));
    }
  }
  NYSTROM_DEVICE void load_from(const T* row, std::int64_t n) {
    NYSTROM_UNROLL
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t first = (p * warp_size + lane_index()) * V;
      if (first >= n) continue;
      const auto pack = load_pack<V>(row + first);
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) value[p][i] = load(pack.value[i]);
    }
  }
  NYSTROM_DEVICE void store_to(T* row, std::int64_t n) const {
    NYSTROM_UNROLL
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t first = (p * warp_size + lane_index()) * V;
      if (first >= n) continue;
      Pack<T, V> pack;
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) pack.value[i] = convert<T>(value[p][i]);
      store_pack(row + first, pack);
    }
  }
};

/// The dropout of rows; none without samples.
template <class A>
struct RowMask {
  SampleRows samples;
  DropoutMask<A> mask;
  std::int64_t rows_per_sample;

  /// The factor of element `column` of row r, which has n elements. `words` caches the Philox words
  /// of four neighbouring elements.
  NYSTROM_DEVICE A operator()(std::int64_t r, std::int64_t n, std::int64_t column,
                              std::int64_t& quad, PhiloxBlock& words) const {
    const std::int64_t b = r / rows_per_sample;
    const std::int64_t element = (samples.first_row(b) + r % rows_per_sample) * n + column;
    if (element / 4 != quad) {
      quad = element / 4;
      words = mask.words(samples.sample(b), quad);
    }
    // Selected by conditions: an index would place the words in memory.
    const std::uint32_t low = element & 1 ? words.word[1] : words.word[0],
                        high = element & 1 ? words.word[3] : words.word[2];
    return mask.factor(element & 2 ? high : low);
  }
  /// Multiplies V neighbours of row r, from `column` on, by their factors.
  template <int V>
  NYSTROM_DEVICE void apply(A (&value)[V], std::int64_t r, std::int64_t n,
                            std::int64_t column) const {
    const auto drop = [&](A& number, A factor) { number = factor == 0 ? A(0) : factor * number; };
    std::int64_t quad = -1;
    PhiloxBlock words{};
    if constexpr (V % 4 == 0) {  // packs are whole Philox blocks
      const std::int64_t b = r / rows_per_sample, sample = samples.sample(b);
      const std::int64_t base = (samples.first_row(b) + r - b * rows_per_sample) * n;
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) {
        if (i % 4 == 0) words = mask.words(sample, (base + column + i) / 4);
        drop(value[i], mask.factor(words.word[i % 4]));
      }
    } else {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) drop(value[i], (*this)(r, n, column + i, quad, words));
    }
  }
};

}  // namespace
}  // namespace nystrom::cuda
