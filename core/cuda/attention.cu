// Which attention kernel runs: the fused ones where there is bf16 and the sizes suit the tensor cores, else the plain ones.
#include "core/cuda/attention_fused.cuh"
#include "core/cuda/attention_plain.cuh"
#include "core/cuda/attention_problem.cuh"

namespace nystrom::cuda {
namespace {

__global__ void any_key_kernel(const std::uint8_t* mask, std::int64_t keys, std::uint8_t* any) {
  bool found = false;
  for (std::int64_t j = threadIdx.x; j < keys; j += warp_size) found = found || mask[blockIdx.x * keys + j] != 0;
  const unsigned votes = __ballot_sync(whole_warp, found);
  if (threadIdx.x == 0) any[blockIdx.x] = votes != 0;
}

}  // namespace

AnyKey::AnyKey(const ViewBase& like, const CView& mask, EmptyRows empty)
    : needed_(mask && empty == EmptyRows::uniform), any_(like, needed_ ? mask.shape[0] : 0) {
  if (!needed_) return;
  launch(any_key_kernel, dim3(static_cast<unsigned>(mask.shape[0])), dim3(warp_size), 0, mask.as<std::uint8_t>(), mask.shape[1],
         any_.get());
}

}  // namespace nystrom::cuda

namespace nystrom::kernels::cuda {

using namespace nystrom::cuda;

void attention(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale, View out, View log_sum_exp) {
  if (out.numel() == 0) return;
  if (fused_attention_fits({q, k, v, out})) return attention_fused(q, k, v, key_mask, empty, scale, out, log_sum_exp);
  attention_plain(q, k, v, key_mask, empty, scale, out, log_sum_exp);
}

void attention_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale, CView out, CView log_sum_exp, CView dout,
                    View dq, View dk, View dv) {
  if (q.numel() == 0 || k.numel() == 0) {
    for (const View& gradient : {dq, dk, dv})
      if (gradient.numel() > 0) kernels::fill(gradient, 0);
    return;
  }
  if (fused_attention_fits({q, k, v, out, dout, dq, dk, dv}))
    return attention_fused_grad(q, k, v, key_mask, empty, scale, out, log_sum_exp, dout, dq, dk, dv);
  attention_plain_grad(q, k, v, key_mask, empty, scale, out, log_sum_exp, dout, dq, dk, dv);
}

}  // namespace nystrom::kernels::cuda
