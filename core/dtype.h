// Element types, and visitors that turn a run-time type into a template argument.
//
// CPU kernels are compiled once for each vector level (core/dispatch.h). The linker could merge
// out-of-line copies of functions in this header, and an older CPU would then execute newer
// instructions. So all functions that kernels use here are forced inline.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"

#define NYSTROM_INLINE inline __attribute__((always_inline))
#ifdef __CUDACC__
#define NYSTROM_HOST_DEVICE __host__ __device__
#else
#define NYSTROM_HOST_DEVICE
#endif

namespace nystrom {

/// The element types of tensors.
enum class DType : unsigned char { f32, bf16, f16, f64, i32, i64, u8 };

/// bfloat16: the upper half of a float, rounded to nearest even.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  /// Rounds to nearest even. NaN stays NaN.
  NYSTROM_HOST_DEVICE NYSTROM_INLINE explicit bf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u : rounded >> 16);
#endif
  }
  /// The exact value.
  NYSTROM_HOST_DEVICE NYSTROM_INLINE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE 754's binary16: 11 bits of precision and numbers up to 65504. Rounding is to nearest even,
/// and to infinity beyond the range. GPUs compute in it; the CPU only stores and converts it.
struct f16 {
  std::uint16_t bits;

  f16() = default;
  /// Rounds to nearest even, and to infinity beyond 65504. NaN stays NaN.
  NYSTROM_HOST_DEVICE NYSTROM_INLINE explicit f16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = u & 0x7fffffffu;
    std::uint32_t rounded;
    if (magnitude > 0x7f800000u) {  // NaN
      rounded = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    } else if (magnitude <
               0x38800000u) {  // below 2⁻¹⁴, f16 and floats of 0.5 … 1 have steps of 2⁻²⁴
      rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {  // the exponent's bias is 15, not 127
      rounded = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
      if (rounded > 0x7c00u) rounded = 0x7c00u;
    }
    bits = static_cast<std::uint16_t>(rounded | (u >> 16 & 0x8000u));
#endif
  }
  /// The exact value.
  NYSTROM_HOST_DEVICE NYSTROM_INLINE explicit operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const std::uint32_t exponent = bits & 0x7c00u, fraction = bits & 0x3ffu;
    std::uint32_t magnitude = (exponent | fraction) << 13;
    if (exponent == 0) {
      magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(0x3f000000u + fraction) - 0.5f);
    } else {
      magnitude += exponent == 0x7c00u ? 0x70000000u : 0x38000000u;
    }
    return std::bit_cast<float>(magnitude | (bits & 0x8000u) << 16);
#endif
  }
};

/// A type as a function argument.
template <class T>
using TypeTag = std::type_identity<T>;

/// The type of sums over T: float for bf16 and f16, T itself otherwise.
template <class T>
using accumulate_t =
    std::conditional_t<std::is_same_v<T, bf16> || std::is_same_v<T, f16>, float, T>;

/// The unsigned integer of T's size, for access to its bits.
template <class T>
using bits_t = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

/// The DType of element type T.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<T, bf16>) {
    return DType::bf16;
  } else if constexpr (std::is_same_v<T, f16>) {
    return DType::f16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::i32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::i64;
  } else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no element type of tensors");
    return DType::u8;
  }
}

/// The bytes of one element.
NYSTROM_INLINE constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

/// The name of a type: "f32" and so on.
NYSTROM_INLINE constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
  }
  return "?";
}

/// Whether the type is a 16-bit float.
NYSTROM_INLINE constexpr bool is_half(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}
/// Whether the type is a float.
NYSTROM_INLINE constexpr bool is_float(DType dtype) {
  return dtype == DType::f32 || is_half(dtype) || dtype == DType::f64;
}

/// The type of sums over `dtype`: accumulate_t at run time.
NYSTROM_INLINE constexpr DType accumulate_dtype(DType dtype) {
  return is_half(dtype) ? DType::f32 : dtype;
}

/// Throws for a type that is no float, or not one of the accepted floats. Never inlined, so that
/// kernels contain only a call.
[[noreturn]] void throw_not_a_float(DType dtype);

/// Calls f(TypeTag<T>{}) with the floating type that `dtype` names. Throws for f16, in which the
/// CPU does not compute, and for other types.
template <class F>
NYSTROM_INLINE void visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::bf16: return f(TypeTag<bf16>{});
    case DType::f64: return f(TypeTag<double>{});
    default: throw_not_a_float(dtype);
  }
}

/// visit_float with f16 too: for GPUs, and for conversions.
template <class F>
NYSTROM_INLINE void visit_any_float(DType dtype, F&& f) {
  if (dtype == DType::f16) return f(TypeTag<f16>{});
  visit_float(dtype, f);
}

/// visit_float for the types of sums: f32 and f64.
template <class F>
NYSTROM_INLINE void visit_accumulate(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f64: return f(TypeTag<double>{});
    default: throw_not_a_float(dtype);
  }
}

}  // namespace nystrom
