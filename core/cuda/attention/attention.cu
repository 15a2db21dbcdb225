// Selection of the attention kernel. cuDNN computes exact attention of long bf16 sequences. Fused
// kernels compute bf16 and f16 whose sizes suit the tensor cores. Plain kernels compute the rest.
#include "core/cuda/attention/attention_forms.h"
#include "core/cuda/attention/attention_problem.cuh"

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
bool suits_cudnn(const AttentionOperands& o, std::initializer_list<CView> operands) {
  constexpr std::int64_t max_width = 128, tile = 128;
  // With less work, making a plan takes longer than it saves.
  constexpr std::int64_t fewest_tokens = 4096;
  const CView& q = o.q;
  if (o.queries.bounds || o.keys.bounds || o.scoring.is_local()) return false;
  if (o.key_mask || q.shape[3] % 8 != 0 || q.shape[3] > max_width || q.shape[2] % tile != 0)
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

AnyKey::AnyKey(const AttentionOperands& o)
    : needed_(o.key_mask && o.empty == EmptyRows::uniform),
      any_(o.q, needed_ ? o.key_mask.shape[0] : 0) {
  if (!needed_) return;
  launch(any_key_kernel, dim3(static_cast<unsigned>(o.key_mask.shape[0])), dim3(warp_size), 0,
         o.key_mask.as<std::uint8_t>(), o.key_mask.shape[1], any_.get());
}

}  // namespace nystrom::cuda

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

void attend(const AttentionOperands& o, View out, View log_sum_exp) {
  if (suits_cudnn(o, {o.q, o.k, o.v, out}) &&
      attention_cudnn(o.q, o.k, o.v, o.scoring.scale, out, log_sum_exp))
    return;
  if (fused_attention_fits({o.q, o.k, o.v, out}))
    return attention_fused(o, {}, {}, out, log_sum_exp);
  attention_plain(o, out, log_sum_exp);
}

void attend_grad(const AttentionOperands& o, CView out, CView log_sum_exp, CView dout, View dq,
                 View dk, View dv) {
  if (suits_cudnn(o, {o.q, o.k, o.v, out, dout, dq, dk, dv}) &&
      attention_cudnn_grad(o.q, o.k, o.v, o.scoring.scale, out, log_sum_exp, dout, dq, dk, dv))
    return;
  if (fused_attention_grad_fits({o.q, o.k, o.v, out ? out : dout, dout, dq, dk, dv}))
    return attention_fused_grad(o, out, log_sum_exp, dout, {}, {}, dq, dk, dv, {});
  attention_plain_grad(o, out, log_sum_exp, dout, dq, dk, dv);
}

}  // namespace

void attention(CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
               EmptyRows empty, Scoring scoring, View out, View log_sum_exp) {
  attend({q, k, v, queries, keys, key_mask, empty, scoring}, out, log_sum_exp);
}

void attention_grad(CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
                    EmptyRows empty, Scoring scoring, CView out, CView log_sum_exp, CView dout,
                    View dq, View dk, View dv) {
  attend_grad({q, k, v, queries, keys, key_mask, empty, scoring}, out, log_sum_exp, dout, dq, dk,
              dv);
}

void attention_with_conv(CView q, CView k, CView v, Spans queries, Spans keys, double scale,
                         CView x, CView w, View out, View log_sum_exp) {
  const AttentionOperands o{q, k, v, queries, keys, {}, EmptyRows::zero, scale};
  if (fused_attention_with_conv_fits(o, x, w, out))
    return attention_fused(o, x, w, out, log_sum_exp);
  attend(o, out, log_sum_exp);
  sequence_conv(x, w, queries, out, out);
}

void attention_grad_with_conv(CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
                              EmptyRows empty, double scale, CView out, CView log_sum_exp,
                              CView dout, CView w, CView dy, View dq, View dk, View dv, View dw) {
  const AttentionOperands o{q, k, v, queries, keys, key_mask, empty, scale};
  if (fused_attention_grad_with_conv_fits(o, out, dout, w, dy, dq, dk, dv))
    return attention_fused_grad(o, out, log_sum_exp, dout, w, dy, dq, dk, dv, dw);
  attend_grad(o, out, log_sum_exp, dout, dq, dk, dv);
  sequence_conv_grad(v, w, keys, dy, dv, dv, dw);
}

}  // namespace nystrom::kernels::cuda
