#include "train/plan/kernel_cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>

#include "core/check.h"
#include "core/kernels.h"
#include "core/matrix_layout.h"
#include "train/plan/attention_cost.h"
#include "train/plan/cost_parts.h"

namespace nystrom {
namespace {

/// As once(), with threads that access single elements.
KernelCost once_narrow(const KernelCall& call) {
  KernelCost cost = once(call);
  cost.narrow_bytes = cost.bytes;
  return cost;
}

KernelCost accumulate_cost(const KernelCall& call) {
  KernelCost cost = once(call);
  cost.bytes += bytes_of(call.views[1]);
  return cost;
}

/// Instructions of an element, estimated from the machine code for sm_90.
double instructions_of(Unary op, bool slope, bool approximate) {
  switch (op) {
    case Unary::gelu_erf: return approximate ? (slope ? 36 : 28) : slope ? 66 : 52;
    case Unary::gelu_tanh: return approximate ? (slope ? 20 : 12) : slope ? 66 : 52;
    case Unary::tanh: return 40;
    case Unary::exp: return 30;
    default: return 4;
  }
}

KernelCost unary_cost(const KernelCall& call) {
  KernelCost cost = once(call);
  cost.instructions =
      count_of(call.views[0]) *
      instructions_of(static_cast<Unary>(call.numbers[0]), false, is_half(call.views[0].dtype));
  return cost;
}

/// The sums of rows, if any, take a second launch.
KernelCost unary_grad_cost(const KernelCall& call) {
  const CView& x = call.views[0];
  KernelCost cost = once(call);
  cost.launches = x.numel() == 0 ? 0 : call.views[4] ? 2 : 1;
  cost.instructions =
      count_of(x) * instructions_of(static_cast<Unary>(call.numbers[0]), true, is_half(x.dtype));
  return cost;
}

KernelCost sum_middle_cost(const KernelCall& call) {
  KernelCost cost = once(call);
  const CView& x = call.views[0];
  if (x.shape[2] * size_of(x.dtype) % 16 != 0) cost.narrow_bytes = cost.bytes;
  if (cost.launches > 0 && x.shape[2] != 1) cost.launches = 2;
  return cost;
}

/// Sums of pieces, and their sum.
KernelCost two_passes(const KernelCall& call) {
  KernelCost cost = once_narrow(call);
  cost.launches = 2;
  return cost;
}

Engine engine_of(const CView& a, Precision precision) {
  if (is_half(a.dtype)) return Engine::product16;
  return precision == Precision::tf32 ? Engine::product_tf32 : Engine::product_f32;
}

/// An operand that cuBLASLt cannot read in its place is copied.
KernelCost copy_for_product(const CView& operand, const CView& result) {
  if (matrix_layout(operand, result)) return {0};
  KernelCost cost;
  cost.bytes = cost.narrow_bytes = 2 * bytes_of(operand);
  return cost;
}

KernelCost matmul_cost(const KernelCall& call) {
  const CView &a = call.views[0], &b = call.views[1], &c = call.views[3];
  KernelCost cost = once(call);
  if (c.numel() == 0) return {0};
  if (call.numbers[0] != 0) cost.bytes += bytes_of(c);
  cost.flops = 2 * count_of(c) * static_cast<double>(a.dim(-1));
  cost.engine = engine_of(a, static_cast<Precision>(call.numbers[1]));
  if (a.dtype == DType::f64 || a.dim(-1) == 0) return cost;
  for (const CView& operand : {a, b}) {
    const KernelCost copy = copy_for_product(operand, c);
    cost.launches += copy.launches;
    cost.bytes += copy.bytes;
    cost.narrow_bytes += copy.narrow_bytes;
  }
  return cost;
}

/// One product whose epilogue sums the rows of dy, and the addition of these sums. In f64, and
/// where the types of the results differ, a product and a sum.
KernelCost linear_grad_cost(const KernelCall& call) {
  const CView &dy = call.views[0], &dw = call.views[2], &db = call.views[3];
  KernelCost cost = once(call);
  const bool add_dw = call.numbers[0] != 0, add_db = call.numbers[1] != 0;
  if (add_dw) cost.bytes += bytes_of(dw);
  cost.flops = 2 * count_of(dw) * static_cast<double>(dy.dim(0));
  cost.engine = engine_of(dy, static_cast<Precision>(call.numbers[2]));
  const bool together =
      dw.numel() > 0 && dy.dim(0) > 0 && dy.dtype != DType::f64 && db.dtype == dw.dtype;
  if (together) {
    cost.launches = add_db ? 2 : 1;
    return cost;
  }
  cost.bytes += bytes_of(dy);
  cost.launches = (dw.numel() > 0 ? 1 : 0) + (db.numel() == 0 ? 0 : db.numel() == 1 ? 1 : 2);
  return cost;
}

/// Passes over rows: the first view is read `reads` times.
KernelCost row_passes(const KernelCall& call, int reads) {
  KernelCost cost = once_narrow(call);
  cost.bytes += (reads - 1) * bytes_of(call.views[0]);
  cost.narrow_bytes = cost.bytes;
  return cost;
}

/// Whether rows stay in registers in the backward pass of LayerNorm (core/cuda/norm.cu).
bool row_fits_registers(const CView& x) {
  const std::int64_t n = x.dim(-1), pack = 16 / size_of(x.dtype);
  const std::int64_t bytes_of_sum = x.dtype == DType::f64 ? 8 : 4;
  return n % pack == 0 && bytes_of_sum * 8 * n <= (64 << 10) && divided(n, pack * 32) <= 32 / pack;
}

KernelCost norm_grad_cost(const KernelCall& call) {
  const CView& x = call.views[0];
  KernelCost cost = once(call);
  cost.launches = x.numel() == 0 ? 0 : row_fits_registers(x) ? 2 : 3;
  return cost;
}

/// Keys, a sort, sums of pieces, and the sums of runs that span pieces. Runs are assumed to have
/// equal lengths, and the parts of long ones to be read 16 at a time.
KernelCost scatter_cost(const KernelCall& call) {
  const CView &x = call.views[0], &index = call.views[1], &y = call.views[2];
  const auto rows = static_cast<double>(index.numel());
  if (x.numel() == 0) return {0};
  KernelCost cost;
  cost.launches = 4;
  const double written = std::min(count_of(y), count_of(x)) * static_cast<double>(size_of(y.dtype));
  cost.bytes = bytes_of(x) + 2 * written + rows * (8 + 8 * 8);
  cost.narrow_bytes = cost.bytes;
  const double targets = count_of(y) / static_cast<double>(y.dim(-1));
  cost.serial_loads = 64 + std::log2(1 + rows / targets) + rows / 64 / targets / 16;
  return cost;
}

/// With a mask, the positions of valid tokens are listed first.
KernelCost segments_cost(const KernelCall& call) {
  KernelCost cost = once(call);
  if (call.views[1]) ++cost.launches;
  return cost;
}
KernelCost segments_grad_cost(const KernelCall& call) {
  KernelCost cost = segments_cost(call);
  cost.bytes += bytes_of(call.views[2]);
  return cost;
}

/// Two products a head, forward or backward, on common cores: each multiply-add needs two loads
/// from shared memory.
KernelCost landmark_matrix_cost(const KernelCall& call) {
  const bool gradient = call.views.size() == 6;
  const CView &landmarks = call.views[gradient ? 0 : 2], &a = call.views[gradient ? 1 : 3];
  KernelCost cost = once(call);
  cost.instructions = (gradient ? 2 : 1) * 3 * count_of(a) * static_cast<double>(landmarks.dim(-1));
  return cost;
}

/// Column sums if the fused kernel does not have its own, the batch's if it has one scale, and the
/// iterations. Of each iteration the fused kernel computes `full` products and three symmetric
/// ones, of which the busiest warp computes five eighths; with 32 landmarks all. The plain one
/// computes `plain` products.
KernelCost pinv_cost(const KernelCall& call, double full, double plain) {
  const CView &a = call.views[0], &iterates = call.views[1];
  if (a.numel() == 0) return {0};
  KernelCost cost = once(call);
  const bool whole = static_cast<PinvScale>(call.numbers[0]) == PinvScale::whole_batch;
  const std::int64_t m = a.dim(-1);
  const bool fits = a.dtype == DType::f32 && (m == 32 || m == 64 || m == 128);
  cost.launches = whole ? 3 : fits ? 1 : 2;
  cost.engine = fits ? Engine::tf32x3 : Engine::product_f32;
  const double products = !fits ? plain : full + 3 * (m == 32 ? 1 : 0.625);
  cost.flops = static_cast<double>(iterates.shape[0] - 1) * products * 2 * count_of(a) *
               static_cast<double>(m);
  return cost;
}
KernelCost pinv_forward_cost(const KernelCall& call) { return pinv_cost(call, 1, 4); }
KernelCost pinv_grad_cost(const KernelCall& call) {
  KernelCost cost = pinv_cost(call, 6, 11);
  const bool whole = static_cast<PinvScale>(call.numbers[0]) == PinvScale::whole_batch;
  if (cost.launches > 0 && whole) ++cost.launches;
  return cost;
}

/// About 20 instructions a logit, most of them for its exponential.
KernelCost cross_entropy_cost(const KernelCall& call) {
  KernelCost cost = once(call);
  cost.launches = call.views[0].numel() > 0 ? 1 : 0;
  cost.instructions = 20 * count_of(call.views[0]);
  return cost;
}

KernelCost adamw_cost(const KernelCall& call) {
  KernelCost cost = once(call);
  cost.launches = call.views[0].numel() > 0 ? 1 : 0;
  for (const int written : {0, 2, 3}) cost.bytes += bytes_of(call.views[written]);
  return cost;
}

const std::map<std::string_view, std::function<KernelCost(const KernelCall&)>> costs = {
    {"copy", once},
    {"fill", once},
    {"accumulate", accumulate_cost},
    {"binary", once},
    {"affine", once},
    {"unary", unary_cost},
    {"unary_grad", unary_grad_cost},
    {"sum_middle", sum_middle_cost},
    {"sum_of_squares", two_passes},
    {"bit_sum", two_passes},
    {"matmul", matmul_cost},
    {"linear_grad", linear_grad_cost},
    {"matmul_plain", once},
    {"softmax", [](const KernelCall& call) { return row_passes(call, 3); }},
    {"softmax_grad", [](const KernelCall& call) { return row_passes(call, 2); }},
    {"layer_norm", once},
    {"layer_norm_grad", norm_grad_cost},
    {"residual_layer_norm", once},
    {"residual_layer_norm_grad", norm_grad_cost},
    {"dropout", once_narrow},
    {"gather_rows", once},
    {"scatter_add_rows", scatter_cost},
    {"mask_rows", once},
    {"landmark_matrix", landmark_matrix_cost},
    {"landmark_matrix_grad", landmark_matrix_cost},
    {"segment_means", segments_cost},
    {"segment_means_grad", segments_grad_cost},
    {"attention", attention_cost},
    {"attention_grad", attention_grad_cost},
    {"attention_with_conv", attention_with_conv_cost},
    {"attention_grad_with_conv", attention_grad_with_conv_cost},
    {"pseudo_inverse_iterative", pinv_forward_cost},
    {"pseudo_inverse_iterative_grad", pinv_grad_cost},
    {"sequence_conv", conv_cost},
    {"sequence_conv_grad", conv_grad_cost},
    {"cross_entropy", cross_entropy_cost},
    {"cross_entropy_grad", cross_entropy_cost},
    {"argmax_rows", [](const KernelCall& call) { return row_passes(call, 2); }},
    {"adamw", adamw_cost},
};

}  // namespace

KernelCost kernel_cost(const KernelCall& call) {
  const auto found = costs.find(call.name);
  require(found != costs.end(), "no cost is known for kernel {}", call.name);
  return found->second(call);
}

}  // namespace nystrom
