#include "autograd/ops/joined.h"

namespace nystrom {

Tensor adjacent(const std::vector<Tensor>& tensors) {
  Tensor all = tensors.at(0);
  for (std::size_t i = 1; i < tensors.size() && all.defined(); ++i)
    all = all.joined_with(tensors[i]);
  return all;
}

Tensor joined(const std::vector<Tensor>& tensors) {
  if (Tensor view = adjacent(tensors); view.defined()) return view;
  std::int64_t rows = 0, first = 0;
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
