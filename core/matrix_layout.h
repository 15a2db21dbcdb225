// The forms of matrices that libraries multiply without a copy.
#pragma once

#include <cstdint>
#include <optional>

#include "core/view.h"

namespace nystrom {

/// A batch of matrices in column-major form, rows × columns, with one stride between matrices. A
/// row-major matrix is the transpose of a column-major one.
struct MatrixLayout {
  bool transposed;  ///< whether a row-major product transposes it
  std::int64_t rows, columns, leading, batch_stride;
};

/// The stride between matrices of the result's batch, if a single number expresses it. 0 repeats
/// the matrix.
inline std::optional<std::int64_t> batch_stride_of(const ViewBase& view, const ViewBase& result) {
  std::optional<std::int64_t> stride;
  std::int64_t inner = 1;
  for (int axis = result.rank - 3; axis >= 0; --axis) {
    if (result.shape[axis] == 1) continue;
    const int own = axis - result.rank + view.rank;
    const std::int64_t step = own >= 0 && view.shape[own] != 1 ? view.stride[own] : 0;
    if (!stride) {
      stride = step;
    } else if (step != *stride * inner) {
      return {};
    }
    inner *= result.shape[axis];
  }
  return stride.value_or(0);
}

/// The layout of `view` as an operand of `result`; nothing if no axis has unit stride, if strides
/// overlap, or if no single stride leads through the batch.
inline std::optional<MatrixLayout> matrix_layout(const ViewBase& view, const ViewBase& result) {
  const std::int64_t rows = view.dim(-2), columns = view.dim(-1);
  const auto stride = batch_stride_of(view, result);
  if (!stride) return {};
  if ((columns == 1 || view.step(-1) == 1) && (rows == 1 || view.step(-2) >= columns))
    return MatrixLayout{false, columns, rows, rows == 1 ? columns : view.step(-2), *stride};
  if ((rows == 1 || view.step(-2) == 1) && (columns == 1 || view.step(-1) >= rows))
    return MatrixLayout{true, rows, columns, columns == 1 ? rows : view.step(-1), *stride};
  return {};
}

}  // namespace nystrom
