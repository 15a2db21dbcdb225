#include "core/int8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace nystrom {

Tensor Int8Rows::matrix() const {
  const std::int64_t rows = scales.numel(),
                     width = rows > 0 ? static_cast<std::int64_t>(values.size()) / rows : 0;
  Tensor result = Tensor::empty({rows, width}, DType::f32);
  for (std::int64_t i = 0; i < result.numel(); ++i)
    result.data<float>()[i] = scales.data<float>()[i / width] * values[static_cast<std::size_t>(i)];
  return result;
}

Int8Rows to_int8_rows(const Tensor& matrix) {
  require(matrix.rank() == 2 && matrix.dtype() == DType::f32, "int8 rows of {}", matrix.shape());
  const Tensor given = matrix.contiguous();
  const std::int64_t rows = matrix.dim(0), width = matrix.dim(1);
  Int8Rows result{std::vector<std::int8_t>(static_cast<std::size_t>(rows * width)),
                  Tensor::empty({rows}, DType::f32)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* x = given.data<float>() + row * width;
    float largest = 0;
    for (std::int64_t i = 0; i < width; ++i) largest = std::max(largest, std::abs(x[i]));
    // A scale below the normal numbers would be 0, or coarse. Such rows become zeros.
    const float step = largest / 127;
    const float scale = step >= std::numeric_limits<float>::min() ? step : 1;
    result.scales.data<float>()[row] = scale;
    for (std::int64_t i = 0; i < width; ++i)
      result.values[static_cast<std::size_t>(row * width + i)] =
          static_cast<std::int8_t>(std::lround(x[i] / scale));
  }
  return result;
}

Tensor round_to_uint8(const Tensor& x) {
  require(x.dtype() == DType::f32, "8 bits are made of f32");
  Tensor result = x.contiguous().clone();
  float* y = result.data<float>();
  float least = 0, greatest = 0;
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    least = std::min(least, y[i]);
    greatest = std::max(greatest, y[i]);
  }
  if (least == greatest) return result;
  const float scale = (greatest - least) / 255, zero = std::nearbyint(-least / scale);
  for (std::int64_t i = 0; i < result.numel(); ++i)
    y[i] = (std::clamp(std::nearbyint(y[i] / scale) + zero, 0.0f, 255.0f) - zero) * scale;
  return result;
}

}  // namespace nystrom
