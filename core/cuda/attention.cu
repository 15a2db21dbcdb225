// Selection of the attention kernel. cuDNN computes exact attention of long bf16 sequences. Fused
// kernels compute bf16 and f16 whose sizes suit the tensor cores. Plain kernels compute the rest.
#include "core/cuda/attention_cudnn.h"
#include "core/cuda/attention_fused.cuh"
#include "core/cuda/attention_plain.cuh"
#include "core/cuda/attention_problem.cuh"

namespace nystrom::cuda {
namespace {

__global__ void any_key_kernel(const std::uint8_t* mask, std::int64_t keys, std::uint8_t* any) {
  bool found = false;
  for (std::int64_t j = threadIdx.x; j < keys; j += warp_size)
    found = found || mask[blockIdx.x * keys + j] != 0;
  const unsigned votes = __ballot_sync(whole_warp, found);
  if (threadIdx.x == 0) any[blockIdx.x] = votes != 0;
}

/// Whether cuDNN is tried: for bf16 operands of one shape without a mask, as in exact attention.
/// Lengths must be whole tiles. For other lengths its backward pass may give NaNs where a row's
/// scores are far below 0, and each new shape costs a plan.
bool suits_cudnn(std::initializer_list<CView> operands, const CView& key_mask) {
  constexpr std::int64_t max_width = 128, tile = 128;
  // With less work, making a plan takes longer than it saves.
  constexpr std::int64_t fewest_tokens = 4096;
  const CView& q = *operands.begin();
  if (key_mask || q.shape[3] % 8 != 0 || q.shape[3] > max_width || q.shape[2] % tile != 0)
    return false;
  if (q.shape[0] * q.shape[2] < fewest_tokens) return false;
  for (const CView& x : operands) {
    if (x.dtype != DType::bf16 || !has_aligned_rows(x)) return false;
    for (int axis = 0; axis < 4; ++axis)
      if (x.shape[axis] != q.shape[axis] || (x.stride[axis] == 0 && x.shape[axis] > 1))
        return false;
  }
  return true;
}

}  // namespace

AnyKey::AnyKey(const ViewBase& like, const CView& mask, EmptyRows empty)
    : needed_(mask && empty == EmptyRows::uniform), any_(like, needed_ ? mask.shape[0] : 0) {
  if (!needed_) return;
  launch(any_key_kernel, dim3(static_cast<unsigned>(mask.shape[0])), dim3(warp_size), 0,
         mask.as<std::uint8_t>(), mask.shape[1], any_.get());
}

}  // namespace nystrom::cuda

namespace nystrom::kernels::cuda {

using namespace nystrom::cuda;

void attention(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale, View out,
               View log_sum_exp) {
  if (out.numel() == 0) return;
  if (suits_cudnn({q, k, v, out}, key_mask) && attention_cudnn(q, k, v, scale, out, log_sum_exp))
    return;
  if (fused_attention_fits({q, k, v, out}))
    return attention_fused(q, k, v, key_mask, empty, scale, {}, {}, {}, out, log_sum_exp);
  attention_plain(q, k, v, key_mask, empty, scale, out, log_sum_exp);
}

void attention_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                    CView out, CView log_sum_exp, CView dout, View dq, View dk, View dv) {
  if (q.numel() == 0 || k.numel() == 0) {
    for (const View& gradient : {dq, dk, dv})
      if (gradient.numel() > 0) kernels::fill(gradient, 0);
    return;
  }
  if (suits_cudnn({q, k, v, out, dout, dq, dk, dv}, key_mask) &&
      attention_cudnn_grad(q, k, v, scale, out, log_sum_exp, dout, dq, dk, dv))
    return;
  if (fused_attention_grad_fits({q, k, v, out ? out : dout, dout, dq, dk, dv}))
    return attention_fused_grad(q, k, v, key_mask, empty, scale, out, log_sum_exp, dout, {}, {}, {},
                                dq, dk, dv, {});
  attention_plain_grad(q, k, v, key_mask, empty, scale, out, log_sum_exp, dout, dq, dk, dv);
}

void attention_with_conv(CView q, CView k, CView v, double scale, CView x, CView w, CView mask,
                         View out, View log_sum_exp) {
  if (out.numel() == 0) return;
  if (fused_attention_with_conv_fits(q, k, v, x, w, out))
    return attention_fused(q, k, v, {}, EmptyRows::zero, scale, x, w, mask, out, log_sum_exp);
  attention(q, k, v, {}, EmptyRows::zero, scale, out, log_sum_exp);
  const View rows = exchanged(out, 1, 2);
  sequence_conv(exchanged(x, 1, 2), w, mask, rows, rows);
}

void attention_grad_with_conv(CView q, CView k, CView v, CView key_mask, EmptyRows empty,
                              double scale, CView out, CView log_sum_exp, CView dout, CView w,
                              CView conv_mask, CView dy, View dq, View dk, View dv, View dw) {
  if (q.numel() > 0 && k.numel() > 0 &&
      fused_attention_grad_with_conv_fits({q, k, v, out, dout, dq, dk, dv}, w, dy))
    return attention_fused_grad(q, k, v, key_mask, empty, scale, out, log_sum_exp, dout, w,
                                conv_mask, dy, dq, dk, dv, dw);
  attention_grad(q, k, v, key_mask, empty, scale, out, log_sum_exp, dout, dq, dk, dv);
  const View rows = exchanged(dv, 1, 2);
  sequence_conv_grad(exchanged(v, 1, 2), w, conv_mask, exchanged(dy, 1, 2), rows, rows, dw);
}

}  // namespace nystrom::kernels::cuda
