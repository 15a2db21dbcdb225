#include "train/plan/attention_cost.h"

#include "core/cuda/attention_sizes.h"
#include "core/kernels.h"
#include "train/plan/cost_parts.h"

namespace nystrom {
namespace {

/// The shared memory of a block on Hopper.
constexpr std::size_t shared_memory = 227 << 10;

/// Whether the fused kernels of core/cuda compute attention of these operands, which are aligned.
bool fused(const std::vector<CView>& operands) {
  const std::int64_t width = operands[0].dim(-1);
  bool half = false, fits = width == 32 || width == 64 || width == 128;
  for (const CView& x : operands) {
    if (!x) continue;
    half = half || is_half(x.dtype);
    fits = fits && x.dim(-1) == width && x.dtype != DType::f64;
  }
  return half && fits;
}

/// A launch that finds samples without any valid key.
std::int64_t any_key_launches(const CView& mask, double empty) {
  return mask && static_cast<EmptyRows>(empty) == EmptyRows::uniform ? 1 : 0;
}

/// The launches that sum the parts of a gradient.
std::int64_t sums_of_parts(std::int64_t heads, std::int64_t own, std::int64_t other, int tensors) {
  const std::int64_t splits =
      cuda::splits_of(heads * divided(own, cuda::tile_rows), divided(other, cuda::tile_rows));
  return splits > 1 ? tensors : 0;
}

/// The band matrices of the convolution on tensor cores have taps + 15 columns a strip of 16 rows.
double conv_flops(const CView& x, const CView& w) {
  return 2 * count_of(x) * static_cast<double>(divided(w.dim(-1) + 30, 16) * 16);
}
/// Two kernels, one after the other.
KernelCost both(KernelCost first, const KernelCost& second) {
  first.launches += second.launches;
  first.bytes += second.bytes;
  first.narrow_bytes += second.narrow_bytes;
  first.flops += second.flops;
  first.instructions += second.instructions;
  return first;
}

}  // namespace

KernelCost attention_cost(const KernelCall& call) {
  const CView &q = call.views[0], &k = call.views[1], &v = call.views[2], &out = call.views[4];
  if (out.numel() == 0) return {0};
  KernelCost cost = once(call);
  const std::int64_t heads = q.shape[0] * q.shape[1];
  cost.flops = 4 * count_of(q) * static_cast<double>(k.shape[2]);
  cost.narrow_bytes = cost.bytes;
  cost.engine = Engine::product_f32;
  cost.launches = 1 + any_key_launches(call.views[3], call.numbers[0]);
  if (!fused({q, k, v, out})) return cost;
  cost.engine = Engine::tiles16;
  cost.narrow_bytes = 0;
  cost.loads_ahead = true;
  const std::int64_t splits = cuda::splits_of(heads * divided(q.shape[2], cuda::tile_rows),
                                              divided(k.shape[2], cuda::tile_rows));
  if (splits == 1) return cost;
  ++cost.launches;
  cost.bytes += 2 * 4 * static_cast<double>(splits) * count_of(out);
  return cost;
}

KernelCost attention_grad_cost(const KernelCall& call) {
  const auto& view = call.views;  // q, k, v, mask, out, log_sum_exp, dout, dq, dk, dv
  const CView &q = view[0], &k = view[1];
  const std::int64_t heads = q.shape[0] * q.shape[1], queries = q.shape[2], keys = k.shape[2];
  KernelCost cost = once(call);
  if (q.numel() == 0 || k.numel() == 0) {
    cost.launches = 0;
    for (const int gradient : {7, 8, 9}) cost.launches += view[gradient].numel() > 0 ? 1 : 0;
    return cost;
  }
  cost.flops = 10 * count_of(q) * static_cast<double>(keys);
  cost.narrow_bytes = cost.bytes;
  cost.engine = Engine::product_f32;
  const std::int64_t any = any_key_launches(view[3], call.numbers[0]);
  cost.launches = any + 2;
  if (!fused({q, k, view[2], view[4], view[6], view[7], view[8], view[9]})) return cost;
  cost.engine = Engine::tiles16;
  cost.narrow_bytes = 0;
  cost.loads_ahead = true;
  cost.launches = any + 1;
  if (keys <= cuda::tile_rows) {
    cost.bytes -= bytes_of(view[4]);  // not read
    cost.launches += sums_of_parts(heads, keys, queries, 2);
  } else if (queries <= cuda::tile_rows) {
    cost.launches += sums_of_parts(heads, queries, keys, 1);
  } else {
    // Two kernels, and one for the products of out and dout, which take divisions of 64 bits:
    // about 150 instructions a row and lane.
    cost.bytes += 2 * bytes_of(view[6]);
    cost.instructions = static_cast<double>(heads * queries) * 32 * 150;
    cost.launches +=
        2 + sums_of_parts(heads, keys, queries, 2) + sums_of_parts(heads, queries, keys, 1);
  }
  return cost;
}

KernelCost conv_cost(const KernelCall& call) {
  KernelCost cost = once(call);
  cost.launches = call.views[0].numel() > 0 ? 1 : 0;
  cost.narrow_bytes = is_half(call.views[0].dtype) ? 0 : cost.bytes;
  cost.flops = conv_flops(call.views[0], call.views[1]);
  cost.engine = is_half(call.views[0].dtype) ? Engine::tiles16 : Engine::product_f32;
  return cost;
}
/// The gradient of the input, that of the taps, and the sum of its pieces.
KernelCost conv_grad_cost(const KernelCall& call) {
  KernelCost cost = conv_cost(call);
  cost.flops *= 2;
  cost.bytes += bytes_of(call.views[3]);
  cost.launches = call.views[0].numel() == 0 ? 0 : 3;
  return cost;
}

KernelCost attention_with_conv_cost(const KernelCall& call) {
  const auto& view = call.views;  // q, k, v, x, w, mask, out, log_sum_exp
  const CView &q = view[0], &x = view[3], &w = view[4], &out = view[6];
  constexpr auto no_mask = static_cast<double>(EmptyRows::zero);
  KernelCost cost =
      attention_cost({"attention", {q, view[1], view[2], {}, out, view[7]}, {no_mask}});
  const bool one_kernel = cost.launches == 1 && fused({q, view[1], view[2], x, out}) &&
                          is_half(x.dtype) && w.dtype == x.dtype &&
                          cuda::bytes_of_forward(q.dim(-1), 1, w.dim(-1)) <= shared_memory;
  if (!one_kernel) return both(cost, conv_cost({"sequence_conv", {x, w, view[5], out, out}, {}}));
  cost.bytes += bytes_of(x) + bytes_of(w) + bytes_of(view[5]);
  cost.flops += conv_flops(x, w);
  return cost;
}

/// Of one kernel the sum of the taps' pieces is a second launch.
KernelCost attention_grad_with_conv_cost(const KernelCall& call) {
  const auto& view = call.views;  // q, k, v, mask, out, log_sum_exp, dout, w, conv_mask, dy, dq …
  const CView &q = view[0], &v = view[2], &w = view[7], &dy = view[9], &dv = view[12];
  const std::vector<CView> of_attention{q,       view[1], v,        view[3],  view[4],
                                        view[5], view[6], view[10], view[11], dv};
  KernelCost cost = attention_grad_cost({"attention_grad", of_attention, call.numbers});
  const bool one_kernel = q.numel() > 0 && v.numel() > 0 && q.shape[2] <= cuda::tile_rows &&
                          fused({q, view[1], v, view[4], view[6], view[10], view[11], dv, dy}) &&
                          is_half(dy.dtype) && w.dtype == dy.dtype &&
                          cuda::bytes_of_backward(q.dim(-1), 1, w.dim(-1)) <= shared_memory;
  if (!one_kernel)
    return both(cost,
                conv_grad_cost({"sequence_conv_grad", {v, w, view[8], dy, dv, dv, view[13]}, {}}));
  cost.bytes = once(call).bytes;
  cost.flops += 2 * conv_flops(v, w);
  cost.launches = any_key_launches(view[3], call.numbers[0]) + 2 +
                  sums_of_parts(q.shape[0] * q.shape[1], q.shape[2], v.shape[2], 1);
  return cost;
}

}  // namespace nystrom
