#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

/// a […, m, m] as [batch, m, m].
Tensor as_batch(const char* name, const Var& a) {
  require(a.rank() >= 2 && a.dim(-1) == a.dim(-2), "{}: expected square matrices […, m, m], got {}",
          name, a.shape());
  require(!is_half(a.dtype()), "{}: {} is too coarse for an inverse; cast to f32 first", name,
          a.dtype());
  const std::int64_t m = a.dim(-1);
  return a.value().contiguous().reshape({m == 0 ? 0 : a.value().numel() / (m * m), m, m});
}

Tensor identity_minus(const Tensor& x) {
  Tensor result = empty_like(x);
  kernels::binary(Binary::subtract, identity(x.dim(-1), x.dtype(), x.device()), x, result);
  return result;
}

}  // namespace

Var pseudo_inverse_iterative(const Var& a, std::int64_t iterations, PinvScale scale) {
  const Tensor batch = as_batch("pseudo_inverse_iterative", a);
  require_iterations("pseudo_inverse_iterative", iterations);
  // All iterates are kept, because the gradient is that of the unrolled iteration. Recomputing them
  // costs more than their memory.
  Tensor z = Tensor::empty(batch.shape().with(0, iterations + 1), batch.dtype(), batch.device());
  kernels::pseudo_inverse_iterative(batch, scale, z);
  const Tensor last = z.slice(0, iterations, iterations + 1).reshape(a.shape());
  return record("pseudo_inverse_iterative", last, {a},
                [batch, z, scale, shape = a.shape()](const Tensor& dy, Grads grads) {
                  Tensor da = empty_like(batch);
                  kernels::pseudo_inverse_iterative_grad(batch, scale, z, dy.reshape(batch.shape()),
                                                         da);
                  grads.add(0, da.reshape(shape));
                });
}

// With Z = A⁺ and G = dZ: dA = −Zᵀ G Zᵀ + (I − A Z) Gᵀ Z Zᵀ + Zᵀ Z Gᵀ (I − Z A).
Var pseudo_inverse_exact(const Var& a) {
  const Tensor batch = as_batch("pseudo_inverse_exact", a);
  Tensor z = empty_like(batch);
  kernels::pseudo_inverse_svd(batch, z);
  return record(
      "pseudo_inverse_exact", z.reshape(a.shape()), {a},
      [batch, z, shape = a.shape()](const Tensor& dy, Grads grads) {
        const Tensor g = dy.reshape(batch.shape());
        const Tensor zt = z.transpose(1, 2), gt = g.transpose(1, 2);
        Tensor da = empty_like(batch);
        kernels::affine(product(product(zt, g), zt), -1, 0, da);
        kernels::accumulate(product(identity_minus(product(batch, z)), product(product(gt, z), zt)),
                            1, da);
        kernels::accumulate(product(product(product(zt, z), gt), identity_minus(product(z, batch))),
                            1, da);
        grads.add(0, da.reshape(shape));
      });
}

}  // namespace nystrom
