// kernels::linear_grad as two kernels.
#pragma once

#include "core/kernels.h"

namespace nystrom {

/// kernels::linear_grad: a product, and a pass over dy for the sums.
inline void linear_grad_in_two(const CView& dy, const CView& x, const View& dw, bool add_dw,
                               View db, bool add_db, Precision precision) {
  kernels::matmul(exchanged(dy, 0, 1), x, CView{}, dw, add_dw, precision);
  CView rows = dy;
  rows.rank = 3;
  rows.shape[2] = dy.shape[1], rows.shape[1] = dy.shape[0], rows.shape[0] = 1;
  rows.stride[2] = dy.stride[1], rows.stride[1] = dy.stride[0], rows.stride[0] = dy.numel();
  db.rank = 2;
  db.shape[1] = db.shape[0], db.shape[0] = 1;
  db.stride[1] = db.stride[0], db.stride[0] = db.shape[1];
  kernels::sum_middle(rows, db, add_db);
}

}  // namespace nystrom
