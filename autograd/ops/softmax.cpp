#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {

Var softmax(const Var& x) {
  require(x.rank() >= 1 && x.dim(-1) >= 1,
          "softmax: needs a last axis of at least one element, got shape {}", x.shape());
  Tensor y = empty_like(x.value());
  kernels::softmax(x.value().contiguous(), y);
  // Jᵀ dy = y ∘ (dy − ⟨y, dy⟩), which does not need the input.
  return record("softmax", y, {x}, [y](const Tensor& dy, Grads grads) {
    Tensor dx = empty_like(y);
    kernels::softmax_grad(y, dy, dx);
    grads.add(0, std::move(dx));
  });
}

}  // namespace nystrom
