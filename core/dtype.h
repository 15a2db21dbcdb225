// Element types, and the visit that turns a run-time type into a template argument.
//
// CPU kernels are compiled once per vector level (core/dispatch.h). A function of this header that were emitted out of line
// could reach an older CPU with newer instructions, so everything kernels use here is forced inline.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "core/error.h"

#define NYSTROM_INLINE inline __attribute__((always_inline))
#ifdef __CUDACC__
#define NYSTROM_HOST_DEVICE __host__ __device__
#else
#define NYSTROM_HOST_DEVICE
#endif

namespace nystrom {

enum class DType : unsigned char { f32, bf16, f64, i32, i64, u8 };

/// bfloat16: the upper half of a float, rounded to nearest even.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  NYSTROM_HOST_DEVICE NYSTROM_INLINE explicit bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u : rounded >> 16);
  }
  NYSTROM_HOST_DEVICE NYSTROM_INLINE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

template <class T>
struct TypeTag {
  using type = T;
};

namespace detail {
template <class T>
struct AccumulateType {
  using type = T;
};
template <>
struct AccumulateType<bf16> {
  using type = float;
};
}  // namespace detail

/// The type in which sums over T are kept: float for bf16, T itself otherwise.
template <class T>
using accumulate_t = typename detail::AccumulateType<T>::type;

// A line a type:
// clang-format off
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() { return DType::f32; }
template <>
constexpr DType dtype_of<bf16>() { return DType::bf16; }
template <>
constexpr DType dtype_of<double>() { return DType::f64; }
template <>
constexpr DType dtype_of<std::int32_t>() { return DType::i32; }
template <>
constexpr DType dtype_of<std::int64_t>() { return DType::i64; }
template <>
constexpr DType dtype_of<std::uint8_t>() { return DType::u8; }
// clang-format on

NYSTROM_INLINE constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

NYSTROM_INLINE constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
  }
  return "?";
}

NYSTROM_INLINE constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64; }

/// The type of sums over `dtype` (accumulate_t at run time).
NYSTROM_INLINE constexpr DType accumulate_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

/// Never inlined, so that kernels carry only a call.
[[noreturn]] void throw_not_a_float(DType dtype);

/// Calls f(TypeTag<T>{}) with the floating type that `dtype` names; throws for integers.
template <class F>
NYSTROM_INLINE void visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::bf16: return f(TypeTag<bf16>{});
    case DType::f64: return f(TypeTag<double>{});
    default: throw_not_a_float(dtype);
  }
}

/// As visit_float for types in which sums are kept: f32 and f64.
template <class F>
NYSTROM_INLINE void visit_accumulate(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f64: return f(TypeTag<double>{});
    default: throw_not_a_float(dtype);
  }
}

}  // namespace nystrom
