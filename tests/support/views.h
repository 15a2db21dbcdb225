// Tensors with unusual strides, and access to their elements without the kernels under test.
#pragma once

#include <vector>

#include "core/dispatch.h"
#include "tests/support/random.h"

namespace nystrom::testing {

inline constexpr CpuLevel cpu_levels[] = {CpuLevel::baseline, CpuLevel::avx2, CpuLevel::avx512,
                                          CpuLevel::avx512_bf16, CpuLevel::amx};

/// Runs the rest of its scope at `level`, or at the best lower level of this machine.
class AtLevel {
 public:
  explicit AtLevel(CpuLevel level) { limit_cpu_level(level); }
  ~AtLevel() { limit_cpu_level(best_cpu_level); }
  AtLevel(const AtLevel&) = delete;
  AtLevel& operator=(const AtLevel&) = delete;
};

/// The offset in memory of the element at row-major index `flat`.
inline std::int64_t offset_of(const ViewBase& view, std::int64_t flat) {
  std::int64_t offset = 0;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    offset += flat % view.shape[axis] * view.stride[axis];
    flat /= view.shape[axis];
  }
  return offset;
}

inline double element(const CView& view, std::int64_t flat) {
  const std::int64_t at = offset_of(view, flat);
  switch (view.dtype) {
    case DType::f32: return view.as<float>()[at];
    case DType::bf16: return static_cast<float>(view.as<bf16>()[at]);
    case DType::f16: return static_cast<float>(view.as<f16>()[at]);
    case DType::f64: return view.as<double>()[at];
    case DType::i32: return view.as<std::int32_t>()[at];
    case DType::i64: return static_cast<double>(view.as<std::int64_t>()[at]);
    case DType::u8: return view.as<std::uint8_t>()[at];
  }
  return 0;
}

/// All elements in row-major order.
inline std::vector<double> elements(const CView& view) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < view.numel(); ++i) values.push_back(element(view, i));
  return values;
}

/// Standard normal values in memory with permuted axes and gaps. Neighbours in a row are not
/// neighbours in memory. With `unit_columns` the last axis has stride 1.
inline Tensor scattered(const Shape& shape, DType dtype, std::uint64_t seed,
                        bool unit_columns = false) {
  const int moved = shape.rank() - (unit_columns ? 1 : 0);
  Shape stored = shape;
  for (int axis = 0; axis < moved; ++axis) stored[axis] = shape[moved - 1 - axis] + 1 + axis % 2;
  if (unit_columns) stored[-1] = shape[-1] + 3;
  Tensor x = random_normal(stored, seed).cast(dtype);
  for (int axis = 0; axis < moved / 2; ++axis) x = x.transpose(axis, moved - 1 - axis);
  for (int axis = 0; axis < shape.rank(); ++axis)
    x = x.slice(axis, x.dim(axis) - shape[axis], x.dim(axis));
  return x;
}

}  // namespace nystrom::testing
