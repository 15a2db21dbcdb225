// Products of small matrices inside ops.
#pragma once

#include "core/kernels.h"

namespace nystrom {

/// a b in full precision, a matrix product for each of the first axis: a [k, m, n], b [k, n, p].
inline Tensor product(const Tensor& a, const Tensor& b) {
  Tensor c = Tensor::empty({a.dim(0), a.dim(1), b.dim(2)}, a.dtype(), a.device());
  kernels::matmul(a, b, CView{}, c, false, Precision::full);
  return c;
}

}  // namespace nystrom
