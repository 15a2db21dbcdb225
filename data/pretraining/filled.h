// Tensors of one value, made by the threads that load data.
#pragma once

#include <algorithm>

#include "core/tensor.h"

namespace nystrom {

/// On the CPU, `value` everywhere. Without kernels, unlike Tensor::full: a loader's worker is no
/// place to start OpenMP's threads.
template <class T>
Tensor filled(const Shape& shape, T value) {
  Tensor result = Tensor::empty(shape, dtype_of<T>());
  std::fill_n(result.data<T>(), result.numel(), value);
  return result;
}

}  // namespace nystrom
