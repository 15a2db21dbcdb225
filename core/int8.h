// Numbers in 8 bits, as ONNX files with dynamic quantisation hold and compute them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace nystrom {

/// A matrix as integers −127 … 127 with one scale for each row: row r is scales[r] · values[r].
struct Int8Rows {
  std::vector<std::int8_t> values;  ///< [rows · width]
  Tensor scales;                    ///< [rows] f32, positive
  /// The matrix [rows, width] f32 that it stands for.
  Tensor matrix() const;
};

/// Rounds a matrix [rows, width] f32 on the CPU. The largest number of a row becomes ±127; a
/// row whose scale would be below the normal numbers becomes zeros.
Int8Rows to_int8_rows(const Tensor& matrix);

/// x, f32 on the CPU, rounded to the 256 values that ONNX's DynamicQuantizeLinear takes for it:
/// evenly spaced, from its least to its greatest number, zero among them.
Tensor round_to_uint8(const Tensor& x);

}  // namespace nystrom
