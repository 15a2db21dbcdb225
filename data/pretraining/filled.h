// Tensors with one value, for data loading threads.
#pragma once

#include <algorithm>

#include "core/tensor.h"

namespace nystrom {

/// A CPU tensor with `value` everywhere. Unlike Tensor::full it calls no kernel: a loader's worker
/// must not start OpenMP threads.
template <class T>
Tensor filled(const Shape& shape, T value) {
  Tensor result = Tensor::empty(shape, dtype_of<T>());
  std::fill_n(result.data<T>(), result.numel(), value);
  return result;
}

}  // namespace nystrom
