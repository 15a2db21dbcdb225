// Which attention kernel runs.
#include "core/cuda/attention_plain.cuh"

namespace nystrom::kernels::cuda {

void attention(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale, View out, View log_sum_exp) {
  nystrom::cuda::attention_plain(q, k, v, key_mask, empty, scale, out, log_sum_exp);
}

void attention_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale, CView out, CView log_sum_exp, CView dout,
                    View dq, View dk, View dv) {
  nystrom::cuda::attention_plain_grad(q, k, v, key_mask, empty, scale, out, log_sum_exp, dout, dq, dk, dv);
}

}  // namespace nystrom::kernels::cuda
