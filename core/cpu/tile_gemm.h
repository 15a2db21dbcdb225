// A small matrix product in registers, for blocks that fit the caches. Attention, the
// pseudo-inverse, the convolution and the f64 matmul are built from it.
#pragma once

#include "core/cpu/convert.h"
#include "core/cpu/level.h"

namespace nystrom {
namespace {

/// A matrix in memory: element (i, j) is data[i * row + j * column].
template <class T>
struct Strided {
  const T* data;
  std::int64_t row, column;
};

template <class T>
struct Vector {
  static constexpr int lanes = NYSTROM_VECTOR_BYTES / sizeof(T);
  typedef T type __attribute__((vector_size(NYSTROM_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

/// c[R, V vectors] (+)= a[R, K] b[K, V vectors], with everything but the operands in registers.
template <class T, int R, int V>
NYSTROM_INLINE void register_tile(std::int64_t K, T alpha, Strided<T> a, const T* b,
                                  std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate) {
  using Vec = typename Vector<T>::type;
  constexpr int lanes = Vector<T>::lanes;
  Vec sum[R][V] = {};
  for (std::int64_t k = 0; k < K; ++k) {
    Vec row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) row[v] = *reinterpret_cast<const Vec*>(b + k * ldb + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const T factor = a.data[r * a.row + k * a.column];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += factor * row[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      auto* target = reinterpret_cast<Vec*>(c + r * ldc + v * lanes);
      *target = accumulate ? *target + alpha * sum[r][v] : alpha * sum[r][v];
    }
  }
}

/// The last columns, if they are fewer than a vector.
template <class T, int R>
NYSTROM_INLINE void narrow_tile(std::int64_t N, std::int64_t K, T alpha, Strided<T> a, const T* b,
                                std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate) {
  for (int r = 0; r < R; ++r) {
    for (std::int64_t j = 0; j < N; ++j) {
      T sum = 0;
      for (std::int64_t k = 0; k < K; ++k) sum += a.data[r * a.row + k * a.column] * b[k * ldb + j];
      c[r * ldc + j] = (accumulate ? c[r * ldc + j] : T(0)) + alpha * sum;
    }
  }
}

template <class T, int R>
NYSTROM_INLINE void row_panel(std::int64_t N, std::int64_t K, T alpha, Strided<T> a, const T* b,
                              std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate) {
  constexpr int lanes = Vector<T>::lanes;
  constexpr int wide = NYSTROM_VECTOR_BYTES == 64 ? 4 : 2;
  std::int64_t j = 0;
  for (; j + wide * lanes <= N; j += wide * lanes)
    register_tile<T, R, wide>(K, alpha, a, b + j, ldb, c + j, ldc, accumulate);
  if (j + 3 * lanes <= N) {
    register_tile<T, R, 3>(K, alpha, a, b + j, ldb, c + j, ldc, accumulate);
    j += 3 * lanes;
  }
  for (; j + lanes <= N; j += lanes)
    register_tile<T, R, 1>(K, alpha, a, b + j, ldb, c + j, ldc, accumulate);
  if (j < N) narrow_tile<T, R>(N - j, K, alpha, a, b + j, ldb, c + j, ldc, accumulate);
}

/// c[M, N] = alpha · a[M, K] b[K, N], or += where `accumulate`: a with any strides, b and c with
/// unit columns.
template <class T>
__attribute__((noinline)) void tile_gemm(std::int64_t M, std::int64_t N, std::int64_t K, T alpha,
                                         Strided<T> a, const T* b, std::int64_t ldb, T* c,
                                         std::int64_t ldc, bool accumulate) {
  std::int64_t i = 0;
  for (; i + 4 <= M; i += 4) {
    row_panel<T, 4>(N, K, alpha, {a.data + i * a.row, a.row, a.column}, b, ldb, c + i * ldc, ldc,
                    accumulate);
  }
  for (; i < M; ++i)
    row_panel<T, 1>(N, K, alpha, {a.data + i * a.row, a.row, a.column}, b, ldb, c + i * ldc, ldc,
                    accumulate);
}

/// target[j * ld_target + i] = source[i * ld_source + j].
template <class T>
NYSTROM_INLINE void transpose_block(const T* source, std::int64_t rows, std::int64_t columns,
                                    std::int64_t ld_source, T* target, std::int64_t ld_target) {
  for (std::int64_t i0 = 0; i0 < rows; i0 += 16) {
    const std::int64_t i1 = i0 + 16 < rows ? i0 + 16 : rows;
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = i0; i < i1; ++i) target[j * ld_target + i] = source[i * ld_source + j];
    }
  }
}

}  // namespace
}  // namespace nystrom
