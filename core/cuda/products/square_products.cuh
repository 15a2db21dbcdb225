// Products of M × M matrices by a block: operands are split into two TF32 numbers each, and three
// of their products are added.
#pragma once

#include "core/cuda/products/mma.cuh"

namespace nystrom::cuda {
namespace {

/// The division of an M × M product over the block: as many warps side by side as below each other.
template <int M>
struct Layout {
  static constexpr int warps_of_side = M == 128 ? 4 : 2, warps = warps_of_side * warps_of_side;
  static constexpr int threads = warps * warp_size;
  static constexpr int side = M / warps_of_side;  // rows and columns of a warp
  // The row stride of a matrix in shared memory, with which pairs of neighbours have no bank
  // conflicts.
  static constexpr int stride = M + 8;
  static constexpr int size = M * stride;
};

/// A square matrix in any memory, or the transpose of one.
struct Matrix {
  const float* data;
  int row, column;  // strides
  NYSTROM_DEVICE float at(int i, int j) const { return data[i * row + j * column]; }
  /// Numbers (i, j) and (i, j + 1), where j is even.
  NYSTROM_DEVICE Pack<float, 2> pair(int i, int j) const {
    if (column == 1) return load_pack<2>(data + i * row + j);
    return {{at(i, j), at(i, j + 1)}};
  }
  NYSTROM_DEVICE Matrix transposed() const { return {data, column, row}; }
};

/// A matrix that is written row by row.
struct Buffer {
  float* data;
  int stride;
  NYSTROM_DEVICE float& at(int i, int j) const { return data[i * stride + j]; }
  NYSTROM_DEVICE operator Matrix() const { return {data, stride, 1}; }
};

/// A warp's part of an M × M sum of products, in registers.
template <int M>
struct BlockProduct {
  static constexpr int rows = Layout<M>::side / 16, columns = Layout<M>::side / 8;  // fragments
  float part[rows][columns][4];

  /// Calls f(row, column, number, its right neighbour) for each two neighbours of this thread.
  template <class F>
  NYSTROM_DEVICE void each_pair(const F& f) {
    const int row = first_row() + lane_index() / 4, column = first_column() + lane_index() % 4 * 2;
    NYSTROM_UNROLL
    for (int r = 0; r < rows; ++r) {
      NYSTROM_UNROLL
      for (int c = 0; c < columns; ++c) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; i += 2)
          f(row + r * 16 + i / 2 * 8, column + c * 8, part[r][c][i], part[r][c][i + 1]);
      }
    }
  }
  /// Calls f(row, column, number) for each number of this thread.
  template <class F>
  NYSTROM_DEVICE void each(const F& f) {
    each_pair([&](int i, int j, float& left, float& right) {
      f(i, j, left);
      f(i, j + 1, right);
    });
  }
  NYSTROM_DEVICE void multiply(float factor) {
    each([&](int, int, float& value) { value *= factor; });
  }
  /// Writes row by row, `stride` numbers apart.
  NYSTROM_DEVICE void store(float* target, int stride) {
    each_pair([&](int i, int j, float left, float right) {
      store_pack(target + i * stride + j, Pack<float, 2>{{left, right}});
    });
  }
  NYSTROM_DEVICE void store(const Buffer& target) { store(target.data, target.stride); }

  /// += x y. Tensor cores truncate their sums. So three products are added to the long sum at a
  /// time, which is rounded. A group of fragments is computed together, because each product of a
  /// fragment waits for the one before. Steps k + t and k + t + 4 of a fragment are those of
  /// neighbours, which are read together.
  NYSTROM_DEVICE void add(const Matrix& x, const Matrix& y) {
    constexpr int group = columns < 4 || M == 128 ? 2 : 4;
    const int row = first_row() + lane_index() / 4, column = first_column() + lane_index() / 4;
    NYSTROM_UNROLL_4
    for (int first = 0; first < M; first += 8) {
      const int k = first + lane_index() % 4 * 2;
      std::uint32_t high[rows][4], low[rows][4];
      NYSTROM_UNROLL
      for (int r = 0; r < rows; ++r) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i) {
          const auto parts = split_tf32(x.pair(row + r * 16 + i % 2 * 8, k).value[i / 2]);
          high[r][i] = parts.high;
          low[r][i] = parts.low;
        }
      }
      NYSTROM_UNROLL
      for (int c = 0; c < columns; c += group) {
        Tf32Parts right[group][2];
        float sum[rows][group][4] = {};
        NYSTROM_UNROLL
        for (int n = 0; n < group; ++n) {
          const auto pair = y.transposed().pair(column + (c + n) * 8, k);
          NYSTROM_UNROLL
          for (int i = 0; i < 2; ++i) right[n][i] = split_tf32(pair.value[i]);
        }
        const auto each_sum = [&](const auto& f) {
          NYSTROM_UNROLL
          for (int r = 0; r < rows; ++r) {
            NYSTROM_UNROLL
            for (int n = 0; n < group; ++n) f(r, n);
          }
        };
        each_sum(
            [&](int r, int n) { mma_tf32(sum[r][n], low[r], right[n][0].high, right[n][1].high); });
        each_sum(
            [&](int r, int n) { mma_tf32(sum[r][n], high[r], right[n][0].low, right[n][1].low); });
        each_sum([&](int r, int n) {
          mma_tf32(sum[r][n], high[r], right[n][0].high, right[n][1].high);
        });
        each_sum([&](int r, int n) {
          NYSTROM_UNROLL
          for (int i = 0; i < 4; ++i) part[r][c + n][i] += sum[r][n][i];
        });
      }
    }
  }

 private:
  NYSTROM_DEVICE static int first_row() {
    return warp_index() / Layout<M>::warps_of_side * Layout<M>::side;
  }
  NYSTROM_DEVICE static int first_column() {
    return warp_index() % Layout<M>::warps_of_side * Layout<M>::side;
  }
};

/// x y, computed by the whole block.
template <int M>
NYSTROM_DEVICE BlockProduct<M> product_of(const Matrix& x, const Matrix& y) {
  BlockProduct<M> p{};
  p.add(x, y);
  return p;
}

}  // namespace
}  // namespace nystrom::cuda
