#include "autograd/ops/shared.h"

namespace nystrom {

Shape around_axis(const Shape& shape, int axis) {
  Shape result{1, shape[axis], 1};
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) result[i < axis ? 0 : 2] *= shape[i];
  return result;
}

Tensor sum_to(Tensor grad, const Shape& shape) {
  while (grad.shape() != shape) {
    int axis = 0;
    if (grad.rank() == shape.rank())
      while (grad.dim(axis) == shape[axis]) ++axis;
    const Shape before = grad.shape(), around = around_axis(before, axis);
    Tensor sum = Tensor::empty(around.without(1), grad.dtype(), grad.device());
    kernels::sum_middle(grad.contiguous().reshape(around), sum, false);
    grad = sum.reshape(before.rank() > shape.rank() ? before.without(axis)
                                                    : before.without(axis).with(axis, 1));
  }
  return grad;
}

Tensor product(const Tensor& a, const Tensor& b) {
  const auto batch = [](const Tensor& x) { return x.shape().without(-1).without(-1); };
  Tensor c = Tensor::empty(broadcast(batch(a), batch(b)).append(a.dim(-2)).append(b.dim(-1)),
                           a.dtype(), a.device());
  kernels::matmul(a, b, CView{}, c, false, Precision::full);
  return c;
}

Tensor adjacent(const std::vector<Tensor>& tensors) {
  Tensor all = tensors.at(0);
  for (std::size_t i = 1; i < tensors.size() && all.defined(); ++i)
    all = all.joined_with(tensors[i]);
  return all;
}

Tensor joined(const std::vector<Tensor>& tensors) {
  if (Tensor view = adjacent(tensors); view.defined()) return view;
  std::int64_t rows = 0, first = 0;
  for (const Tensor& tensor : tensors)
    require(tensor.dtype() == tensors[0].dtype(), "tensors of {} and {} cannot be joined",
            tensors[0].dtype(), tensor.dtype());
  for (const Tensor& tensor : tensors) rows += tensor.dim(0);
  Shape shape = tensors[0].shape();
  shape[0] = rows;
  Tensor all = Tensor::empty(shape, tensors[0].dtype(), tensors[0].device());
  for (const Tensor& tensor : tensors) {
    kernels::copy(tensor, all.slice(0, first, first + tensor.dim(0)));
    first += tensor.dim(0);
  }
  return all;
}

}  // namespace nystrom
