// The exact inverse serves studies, not speed, so the CPU computes it.
#include "core/cuda/runtime.h"
#include "core/kernels.h"
#include "core/tensor.h"

namespace nystrom::kernels::cuda {
namespace {

/// A tensor like `view` on the other device.
Tensor host_like(const ViewBase& view) { return Tensor::empty(Shape(view), view.dtype); }

}  // namespace

void pseudo_inverse_svd(CView a, View z) {
  Tensor host_a = host_like(a), host_z = host_like(z);
  const View from = host_a, to = host_z;
  nystrom::cuda::copy_to_host(a.device.index, from.data, a.data, host_a.bytes());
  kernels::pseudo_inverse_svd(host_a, host_z);
  nystrom::cuda::copy_to_device(z.device.index, z.data, to.data, host_z.bytes());
}

}  // namespace nystrom::kernels::cuda
