// A small matrix product in registers, for blocks that fit the caches. Attention, the
// pseudo-inverse, the convolution and the f64 matmul are built from it. Operands are float, double,
// or pairs of bf16 numbers with sums in float: in vectors, or in AMX's tiles.
#pragma once

#include <bit>
#include <type_traits>

#include "core/cpu/convert.h"
#include "core/cpu/level.h"
#include "core/dispatch.h"

namespace nystrom {
namespace {

/// A matrix in memory: element (i, j) is data[i * row + j * column].
template <class T>
struct Strided {
  const T* data;
  std::int64_t row, column;
};

/// Two bf16 numbers that are neighbours along the summed axis, the first in the lower half. A
/// product of pairs is the sum of two products.
struct __attribute__((may_alias)) Bf16Pair {
  std::uint32_t bits;
};

/// Vectors of operands, and the type of sums over their products.
template <class T>
struct Vector {
  using Sum = T;
  static constexpr int lanes = NYSTROM_VECTOR_BYTES / sizeof(T);
  typedef T type __attribute__((vector_size(NYSTROM_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};
template <>
struct Vector<Bf16Pair> {
  using Sum = float;
  static constexpr int lanes = NYSTROM_VECTOR_BYTES / sizeof(Bf16Pair);
  typedef std::uint32_t type
      __attribute__((vector_size(NYSTROM_VECTOR_BYTES), aligned(sizeof(Bf16Pair)), may_alias));
};
template <class T>
using SumOf = typename Vector<T>::Sum;

/// `count` columns rounded up to whole vectors. Nothing reads the others.
template <class T>
NYSTROM_INLINE std::int64_t whole_vectors(std::int64_t count) {
  constexpr std::int64_t lanes = Vector<T>::lanes;
  return (count + lanes - 1) / lanes * lanes;
}

NYSTROM_INLINE float product(Bf16Pair a, Bf16Pair b) {
  const auto lower = [](Bf16Pair x) { return std::bit_cast<float>(x.bits << 16); };
  const auto upper = [](Bf16Pair x) { return std::bit_cast<float>(x.bits & 0xffff0000u); };
  return lower(a) * lower(b) + upper(a) * upper(b);
}
template <class T>
NYSTROM_INLINE T product(T a, T b) {
  return a * b;
}

/// sum[v] += factor · row[v]. With pairs only from CpuLevel::avx512_bf16 on.
template <class T, int V>
NYSTROM_INLINE void multiply_add(typename Vector<SumOf<T>>::type (&sum)[V], T factor,
                                 const typename Vector<T>::type (&row)[V]) {
  if constexpr (std::is_same_v<T, Bf16Pair>) {
    const typename Vector<T>::type factors = typename Vector<T>::type{} + factor.bits;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      // In assembler, because this file is compiled for processors without the instruction too.
      asm("vdpbf16ps %2, %1, %0" : "+v"(sum[v]) : "v"(factors), "v"(row[v]));
    }
  } else {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[v] += factor * row[v];
  }
}

/// c[R, V vectors] (+)= a[R, K] b[K, V vectors], with everything but the operands in registers.
template <class T, int R, int V>
NYSTROM_INLINE void register_tile(std::int64_t K, SumOf<T> alpha, Strided<T> a, const T* b,
                                  std::int64_t ldb, SumOf<T>* c, std::int64_t ldc,
                                  bool accumulate) {
  using Vec = typename Vector<T>::type;
  using Sums = typename Vector<SumOf<T>>::type;
  constexpr int lanes = Vector<T>::lanes;
  Sums sum[R][V] = {};
  for (std::int64_t k = 0; k < K; ++k) {
    Vec row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) row[v] = *reinterpret_cast<const Vec*>(b + k * ldb + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) multiply_add<T>(sum[r], a.data[r * a.row + k * a.column], row);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      auto* target = reinterpret_cast<Sums*>(c + r * ldc + v * lanes);
      *target = accumulate ? *target + alpha * sum[r][v] : alpha * sum[r][v];
    }
  }
}

/// The last columns, if they are fewer than a vector.
template <class T, int R>
NYSTROM_INLINE void narrow_tile(std::int64_t N, std::int64_t K, SumOf<T> alpha, Strided<T> a,
                                const T* b, std::int64_t ldb, SumOf<T>* c, std::int64_t ldc,
                                bool accumulate) {
  for (int r = 0; r < R; ++r) {
    for (std::int64_t j = 0; j < N; ++j) {
      SumOf<T> sum = 0;
      for (std::int64_t k = 0; k < K; ++k)
        sum += product(a.data[r * a.row + k * a.column], b[k * ldb + j]);
      c[r * ldc + j] = (accumulate ? c[r * ldc + j] : SumOf<T>(0)) + alpha * sum;
    }
  }
}

template <class T, int R>
NYSTROM_INLINE void row_panel(std::int64_t N, std::int64_t K, SumOf<T> alpha, Strided<T> a,
                              const T* b, std::int64_t ldb, SumOf<T>* c, std::int64_t ldc,
                              bool accumulate) {
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
  narrow_tile<T, R>(N - j, K, alpha, a, b + j, ldb, c + j, ldc, accumulate);
}

/// Most pairs of a row of a that are copied into order.
constexpr std::int64_t most_strided_pairs = 32;

/// The shapes of AMX's tiles: at most 16 rows of 64 bytes, as LDTILECFG reads them.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// In assembler, because this file is compiled for processors without tiles too.
template <int tile>
NYSTROM_INLINE void load_tile(const void* rows, std::int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(row_bytes), "i"(tile) : "memory");
}
template <int tile>
NYSTROM_INLINE void store_tile(void* rows, std::int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(row_bytes), "i"(tile) : "memory");
}
template <int tile>
NYSTROM_INLINE void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}
/// sum += a b, all tiles.
template <int sum, int a, int b>
NYSTROM_INLINE void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(a), "i"(b));
}

/// Adds the products of a column of a's tiles and a tile of b to the sums. Tiles `first` and
/// first + 1 hold a, first + 2 holds b.
template <int first, bool two>
NYSTROM_INLINE void add_products(const Bf16Pair* a, std::int64_t lda, const Bf16Pair* b,
                                 std::int64_t ldb) {
  load_tile<first + 2>(b, 4 * ldb);
  load_tile<first>(a, 4 * lda);
  multiply_tiles<0, first, first + 2>();
  if constexpr (two) {
    load_tile<first + 1>(a + 16 * lda, 4 * lda);
    multiply_tiles<1, first + 1, first + 2>();
  }
}

/// Up to 32 rows of c (+)= a b in tiles: two of sums share those of b. The K pairs are whole tiles
/// and `rest`. Tiles 0 and 1: sums; 2 to 4: of a and b; 5 to 7: the last of a and b.
template <bool two>
NYSTROM_INLINE void tile_rows(std::int64_t N, std::int64_t K, std::int64_t rest, const Bf16Pair* a,
                              std::int64_t lda, const Bf16Pair* b, std::int64_t ldb, float* c,
                              std::int64_t ldc, bool accumulate) {
  for (std::int64_t j = 0; j < N; j += 16) {
    if (accumulate) {
      load_tile<0>(c + j, 4 * ldc);
      if constexpr (two) load_tile<1>(c + 16 * ldc + j, 4 * ldc);
    } else {
      clear_tile<0>();
      if constexpr (two) clear_tile<1>();
    }
    std::int64_t k = 0;
    for (; k + 16 <= K; k += 16) add_products<2, two>(a + k, lda, b + k * ldb + j, ldb);
    if (rest > 0) add_products<5, two>(a + k, lda, b + k * ldb + j, ldb);
    store_tile<0>(c + j, 4 * ldc);
    if constexpr (two) store_tile<1>(c + 16 * ldc + j, 4 * ldc);
  }
}

/// tile_gemm of pairs on CpuLevel::amx, for whole vectors of columns.
NYSTROM_INLINE void amx_gemm(std::int64_t M, std::int64_t N, std::int64_t K, float alpha,
                             Strided<Bf16Pair> a, const Bf16Pair* b, std::int64_t ldb, float* c,
                             std::int64_t ldc, bool accumulate) {
  alignas(64) Bf16Pair in_order[32 * most_strided_pairs];
  const std::int64_t rest = K % 16;
  std::int64_t configured = 0;
  for (std::int64_t i = 0; i < M; i += 32) {
    const std::int64_t rows = M - i < 32 ? M - i : 32, upper = rows < 16 ? rows : 16;
    if (rows != configured) {
      TileShapes shapes;
      const auto set = [&](int tile, std::int64_t tile_rows, std::int64_t columns) {
        shapes.rows[tile] = static_cast<std::uint8_t>(tile_rows);
        shapes.row_bytes[tile] = static_cast<std::uint16_t>(tile_rows > 0 ? 4 * columns : 0);
      };
      set(0, upper, 16);
      set(1, rows - upper, 16);
      set(2, upper, 16);
      set(3, rows - upper, 16);
      set(4, 16, 16);
      if (rest > 0) {
        set(5, upper, rest);
        set(6, rows - upper, rest);
        set(7, rest, 16);
      }
      asm volatile("ldtilecfg %0" ::"m"(shapes));
      configured = rows;
    }
    const Bf16Pair* of_a = a.data + i * a.row;
    std::int64_t lda = a.row;
    if (a.column != 1) {
      for (std::int64_t k = 0; k < K; ++k) {
        for (std::int64_t r = 0; r < rows; ++r)
          in_order[r * K + k] = of_a[r * a.row + k * a.column];
      }
      of_a = in_order;
      lda = K;
    }
    if (rows > 16) {
      tile_rows<true>(N, K, rest, of_a, lda, b, ldb, c + i * ldc, ldc, accumulate);
    } else {
      tile_rows<false>(N, K, rest, of_a, lda, b, ldb, c + i * ldc, ldc, accumulate);
    }
  }
  asm volatile("tilerelease");
  if (alpha == 1.0f) return;
  for (std::int64_t r = 0; r < M; ++r) {
    for (std::int64_t j = 0; j < N; ++j) c[r * ldc + j] *= alpha;
  }
}

/// c[M, N] = alpha · a[M, K] b[K, N], or += where `accumulate`: a with any strides, b and c with
/// unit columns. With pairs, K counts pairs.
template <class T>
__attribute__((noinline)) void tile_gemm(std::int64_t M, std::int64_t N, std::int64_t K,
                                         SumOf<T> alpha, Strided<T> a, const T* b, std::int64_t ldb,
                                         SumOf<T>* c, std::int64_t ldc, bool accumulate) {
  if constexpr (std::is_same_v<T, Bf16Pair>) {
    const bool fits =
        N % 16 == 0 && (a.column == 1 || K <= most_strided_pairs) && (alpha == 1.0f || !accumulate);
    if (fits && cpu_level() == CpuLevel::amx)
      return amx_gemm(M, N, K, alpha, a, b, ldb, c, ldc, accumulate);
  }
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
