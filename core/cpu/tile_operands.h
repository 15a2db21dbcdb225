// The blocks of attention and convolution as operands of core/cpu/tile_gemm.h: numbers of the
// accumulate type, or pairs of bf16 numbers.
//
// A product sums over an axis, and pairs are neighbours along that axis. Rows that are multiplied
// by columns therefore keep their numbers in order; rows that are summed over are interleaved, two
// by two.
#pragma once

#include <cstring>

#include "core/cpu/convert.h"
#include "core/cpu/spans.h"
#include "core/cpu/tile_gemm.h"
#include "core/dispatch.h"

namespace nystrom {
namespace {

/// The numbers in one operand, and their type in memory.
template <class T>
inline constexpr std::int64_t numbers_in = std::is_same_v<T, Bf16Pair> ? 2 : 1;
template <class T>
using NumberOf = std::conditional_t<std::is_same_v<T, Bf16Pair>, bf16, T>;

/// The operands that hold `count` numbers; an odd last one has 0 beside it.
template <class T>
NYSTROM_INLINE std::int64_t operands(std::int64_t count) {
  return (count + numbers_in<T> - 1) / numbers_in<T>;
}

NYSTROM_INLINE void load_number_row(const CView& view, std::int64_t offset, bf16* target,
                                    std::int64_t n) {
  if (view.dtype == DType::bf16) {
    std::memcpy(target, view.as<bf16>() + offset, static_cast<std::size_t>(n) * sizeof(bf16));
  } else {
    convert_row(view.as<float>() + offset, target, n);
  }
}
template <class A>
NYSTROM_INLINE void load_number_row(const CView& view, std::int64_t offset, A* target,
                                    std::int64_t n) {
  load_row(view, offset, target, n);
}

/// target[r, :] = row first + r of the head. Rows with valid = 0 are 0, because padding may hold
/// anything, even infinities. The width is a multiple of numbers_in<T>.
template <class T>
NYSTROM_INLINE void load_rows(const CView& view, Head head, const std::uint8_t* valid,
                              std::int64_t first, std::int64_t rows, T* target) {
  using Number = NumberOf<T>;
  const std::int64_t width = view.dim(-1);
  auto* numbers = reinterpret_cast<Number*>(target);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (!valid || valid[first + r]) {
      load_number_row(view, head.offset + (first + r) * head.row, numbers + r * width, width);
    } else {
      for (std::int64_t i = 0; i < width; ++i) numbers[r * width + i] = Number(0);
    }
  }
}

NYSTROM_INLINE Bf16Pair pair_of(bf16 first, bf16 second) {
  return {first.bits | static_cast<std::uint32_t>(second.bits) << 16};
}

/// rows [count, width] as operands of sums over rows: [operands(count), width].
template <class T>
NYSTROM_INLINE const T* interleave(const T* rows, std::int64_t count, std::int64_t width,
                                   T* target) {
  if constexpr (std::is_same_v<T, Bf16Pair>) {
    const auto* numbers = reinterpret_cast<const bf16*>(rows);
    for (std::int64_t r = 0; r < count; r += 2) {
      const bf16* __restrict upper = numbers + r * width;
      const bf16* __restrict lower = upper + width;
      Bf16Pair* __restrict pairs = target + r / 2 * width;
      if (r + 1 < count) {
        for (std::int64_t i = 0; i < width; ++i) pairs[i] = pair_of(upper[i], lower[i]);
      } else {
        for (std::int64_t i = 0; i < width; ++i) pairs[i] = {upper[i].bits};
      }
    }
    return target;
  } else {
    return rows;
  }
}

/// `n` numbers, a multiple of a vector, rounded to bf16 by CpuLevel::avx512_bf16's instruction.
NYSTROM_INLINE void round_row(const float* source, bf16* target, std::int64_t n) {
  using Floats = Vector<float>::type;
  typedef std::uint16_t Halves
      __attribute__((vector_size(NYSTROM_VECTOR_BYTES / 2), aligned(2), may_alias));
  for (std::int64_t i = 0; i < n; i += Vector<float>::lanes) {
    Halves rounded;
    asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(*reinterpret_cast<const Floats*>(source + i)));
    *reinterpret_cast<Halves*>(target + i) = rounded;
  }
}

/// numbers [rows, columns] in rows of `stride` numbers, as operands of products over columns:
/// [rows, stride / numbers_in<T>].
template <class T>
NYSTROM_INLINE const T* as_operands(const SumOf<T>* numbers, std::int64_t rows,
                                    std::int64_t columns, std::int64_t stride, T* target) {
  if constexpr (std::is_same_v<T, Bf16Pair>) {
    auto* rounded = reinterpret_cast<bf16*>(target);
    for (std::int64_t r = 0; r < rows; ++r) {
      round_row(numbers + r * stride, rounded + r * stride, stride);
      if (columns % 2 == 1) rounded[r * stride + columns] = bf16(0.0f);
    }
    return target;
  } else {
    return numbers;
  }
}

/// Whether this processor multiplies pairs, and rows of `width` numbers are whole vectors of them.
NYSTROM_INLINE bool pairs_fit(std::int64_t width) {
  return width % 16 == 0 && cpu_level() >= CpuLevel::avx512_bf16;
}

/// Calls f(TypeTag<T>{}) with the type of operands: pairs, or the type of `sums`.
template <class F>
NYSTROM_INLINE void visit_operands(bool pairs, DType sums, F&& f) {
  if constexpr (NYSTROM_VECTOR_BYTES == 64) {
    if (pairs) return f(TypeTag<Bf16Pair>{});
  }
  visit_accumulate(sums, f);
}

}  // namespace
}  // namespace nystrom
