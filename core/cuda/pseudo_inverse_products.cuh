// Products of M × M matrices by a block, for the pseudo-inverse: operands are split into two TF32
// numbers each, and three of their products are added.
#pragma once

#include "core/cuda/mma.cuh"

namespace nystrom::cuda {
namespace {

/// The division of an M × M product over the block: two warps side by side, the others below.
template <int M>
struct Layout {
  static constexpr int warps = M == 128 ? 16 : 4;
  static constexpr int threads = warps * warp_size;
  static constexpr int rows = M / (warps / 2), columns = M / 2;  // of a warp
  // The row stride of a matrix in shared memory, which avoids bank conflicts of left operands.
  static constexpr int stride = M + 4;
  static constexpr int size = M * stride;
};

/// A square matrix in any memory, or the transpose of one.
struct Matrix {
  const float* data;
  int row, column;  // strides
  NYSTROM_DEVICE float at(int i, int j) const { return data[i * row + j * column]; }
  NYSTROM_DEVICE Matrix transposed() const { return {data, column, row}; }
};

/// A matrix that is written row by row.
struct Buffer {
  float* data;
  int stride;
  NYSTROM_DEVICE float& at(int i, int j) const { return data[i * stride + j]; }
  NYSTROM_DEVICE operator Matrix() const { return {data, stride, 1}; }
};

/// c += x y for one fragment. Tensor cores truncate their sums. So three products are added to the
/// long sum at a time, which is rounded.
NYSTROM_DEVICE void add_split(float (&c)[4], const Tf32Parts (&x)[4], const Tf32Parts (&y)[2]) {
  const std::uint32_t high[4] = {x[0].high, x[1].high, x[2].high, x[3].high},
                      low[4] = {x[0].low, x[1].low, x[2].low, x[3].low};
  float sum[4] = {};
  mma_tf32(sum, low, y[0].high, y[1].high);
  mma_tf32(sum, high, y[0].low, y[1].low);
  mma_tf32(sum, high, y[0].high, y[1].high);
  NYSTROM_UNROLL
  for (int i = 0; i < 4; ++i) c[i] += sum[i];
}

/// A warp's part of an M × M sum of products, in registers.
template <int M>
struct Product {
  using L = Layout<M>;
  float part[L::rows / 16][L::columns / 8][4];

  NYSTROM_DEVICE void multiply(float factor) {
    NYSTROM_UNROLL
    for (int r = 0; r < L::rows / 16; ++r) {
      NYSTROM_UNROLL
      for (int c = 0; c < L::columns / 8; ++c) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i) part[r][c][i] *= factor;
      }
    }
  }

  /// Calls f(row, column, number) for each number of this thread.
  template <class F>
  NYSTROM_DEVICE void each(const F& f) {
    const int row = warp_index() / 2 * L::rows + lane_index() / 4,
              column = warp_index() % 2 * L::columns + lane_index() % 4 * 2;
    NYSTROM_UNROLL
    for (int r = 0; r < L::rows / 16; ++r) {
      NYSTROM_UNROLL
      for (int c = 0; c < L::columns / 8; ++c) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i)
          f(row + r * 16 + i / 2 * 8, column + c * 8 + i % 2, part[r][c][i]);
      }
    }
  }

  /// += x y
  NYSTROM_DEVICE void add(const Matrix& x, const Matrix& y) {
    const int g = lane_index() / 4, t = lane_index() % 4;
    const int row = warp_index() / 2 * L::rows + g, column = warp_index() % 2 * L::columns + g;
    for (int first = 0; first < M; first += 8) {
      const int k = first + t;
      Tf32Parts left[L::rows / 16][4];
      NYSTROM_UNROLL
      for (int r = 0; r < L::rows / 16; ++r) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i)
          left[r][i] = split_tf32(x.at(row + r * 16 + i % 2 * 8, k + i / 2 * 4));
      }
      NYSTROM_UNROLL
      for (int c = 0; c < L::columns / 8; ++c) {
        const Tf32Parts right[2] = {split_tf32(y.at(k, column + c * 8)),
                                    split_tf32(y.at(k + 4, column + c * 8))};
        NYSTROM_UNROLL
        for (int r = 0; r < L::rows / 16; ++r) add_split(part[r][c], left[r], right);
      }
    }
  }
};

/// The upper triangle of a symmetric M × M sum of products, in registers. Row blocks r and R − 1 −
/// r of 16 rows have as many fragments together for every r. Some warps share such a pair.
template <int M>
struct Triangle {
  using L = Layout<M>;
  static constexpr int row_blocks = M / 16, spans = M / 8;
  static constexpr int warps_of_pair = L::warps / (row_blocks / 2);
  static constexpr int fragments = (spans + 2 + warps_of_pair - 1) / warps_of_pair;
  float part[fragments][4];

  /// Whether fragment i lies in the pair's second row block. The second one is below the first.
  NYSTROM_DEVICE static bool is_second(int i) { return number(i) >= spans - 2 * pair(); }
  NYSTROM_DEVICE static bool exists(int i) { return number(i) < spans + 2; }
  NYSTROM_DEVICE static int row(bool second) {
    return 16 * (second ? row_blocks - 1 - pair() : pair());
  }
  NYSTROM_DEVICE static int column(int i) {
    // Row block r begins at fragment 2 r.
    return 8 * (is_second(i) ? number(i) - (spans - 2 * pair()) + 2 * (row_blocks - 1 - pair())
                             : number(i) + 2 * pair());
  }

  /// Calls f(row, column, number) for each number of this thread on or above the diagonal.
  template <class F>
  NYSTROM_DEVICE void each(const F& f) {
    NYSTROM_UNROLL
    for (int c = 0; c < fragments; ++c) {
      if (!exists(c)) continue;
      NYSTROM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int r = row(is_second(c)) + lane_index() / 4 + i / 2 * 8,
                  q = column(c) + lane_index() % 4 * 2 + i % 2;
        if (q >= r) f(r, q, part[c][i]);
      }
    }
  }

  /// += x y
  NYSTROM_DEVICE void add(const Matrix& x, const Matrix& y) {
    const int g = lane_index() / 4, t = lane_index() % 4;
    for (int first = 0; first < M; first += 8) {
      const int k = first + t;
      Tf32Parts left[2][4];
      NYSTROM_UNROLL
      for (int second = 0; second < 2; ++second) {
        if (second ? !is_second(fragments - 1) : is_second(0)) continue;
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i)
          left[second][i] = split_tf32(x.at(row(second) + g + i % 2 * 8, k + i / 2 * 4));
      }
      NYSTROM_UNROLL
      for (int c = 0; c < fragments; ++c) {
        if (!exists(c)) continue;
        const Tf32Parts right[2] = {split_tf32(y.at(k, column(c) + g)),
                                    split_tf32(y.at(k + 4, column(c) + g))};
        if (is_second(c)) {
          add_split(part[c], left[1], right);
        } else {
          add_split(part[c], left[0], right);
        }
      }
    }
  }

 private:
  NYSTROM_DEVICE static int pair() { return warp_index() / warps_of_pair; }
  NYSTROM_DEVICE static int number(int i) { return warp_index() % warps_of_pair * fragments + i; }
};

/// x y, computed by the whole block.
template <int M>
NYSTROM_DEVICE Product<M> product_of(const Matrix& x, const Matrix& y) {
  Product<M> p{};
  p.add(x, y);
  return p;
}
/// x y, which is symmetric.
template <int M>
NYSTROM_DEVICE Triangle<M> symmetric_product_of(const Matrix& x, const Matrix& y) {
  Triangle<M> p{};
  p.add(x, y);
  return p;
}

/// Writes f(row, column, number) at both places of each number of a symmetric matrix.
template <int M, class F>
NYSTROM_DEVICE void store_symmetric(Triangle<M>& p, const Buffer& target, const F& f) {
  p.each([&](int i, int j, float value) {
    const float stored = f(i, j, value);
    target.at(i, j) = stored;
    if (i != j) target.at(j, i) = stored;
  });
}

/// M = A Z and T = 13 I − M (15 I − M (7 I − M)), the factor of Z⁺ = Z T / 4. Both are symmetric:
/// Z0 = Aᵀ / c, so every M is a polynomial in A Aᵀ. Right operands that are symmetric are read
/// transposed, which has no bank conflicts. Ends with a barrier.
template <int M>
NYSTROM_DEVICE void factors(const Matrix& a, const Matrix& z, const Buffer& am, const Buffer& t) {
  const Matrix symmetric = Matrix(am).transposed();
  Triangle<M> p = symmetric_product_of<M>(a, z);
  store_symmetric(p, am, [](int, int, float value) { return value; });
  __syncthreads();
  p = symmetric_product_of<M>(am, symmetric);
  store_symmetric(p, t, [&](int i, int j, float value) {
    return (i == j ? 15.0f : 0.0f) - 7 * am.at(i, j) + value;
  });
  __syncthreads();
  p = symmetric_product_of<M>(am, Matrix(t).transposed());
  __syncthreads();
  store_symmetric(p, t, [](int i, int j, float value) { return (i == j ? 13.0f : 0.0f) - value; });
  __syncthreads();
}

}  // namespace
}  // namespace nystrom::cuda
