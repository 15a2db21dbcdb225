#include "core/cuda/attention_plain.cuh"

#include <cmath>

#include "core/cuda/attention_problem.cuh"
#include "core/cuda/shared.cuh"
#include "core/math.h"

namespace nystrom::cuda {
namespace {

constexpr int warps = 4;  // warps of a block

template <class A, bool Constant>
NYSTROM_DEVICE void load_row(const Heads<A, Constant>& x, std::int64_t at, A* target) {
  for (std::int64_t i = lane_index(); i < x.width; i += warp_size)
    target[i] = x.numbers.get(at + i);
}
template <class A>
NYSTROM_DEVICE void store_row(const Heads<A, false>& x, std::int64_t at, const A* source) {
  for (std::int64_t i = lane_index(); i < x.width; i += warp_size) x.numbers.set(at + i, source[i]);
}
template <class A>
NYSTROM_DEVICE A dot(const A* x, const Heads<A, true>& y, std::int64_t at) {
  A sum = 0;
  for (std::int64_t i = 0; i < y.width; ++i) sum += x[i] * y.numbers.get(at + i);
  return sum;
}
/// target = target · shrink + Σ over the warp's lanes i with a bit in `lanes` of weight[i] · row
/// first + i.
template <class A>
NYSTROM_DEVICE void add_rows(const Heads<A, true>& x, std::int64_t b, std::int64_t h,
                             std::int64_t first, unsigned lanes, const A* weight, A shrink,
                             A* target) {
  for (std::int64_t c = lane_index(); c < x.width; c += warp_size) {
    A sum = target[c] * shrink;
    for (int i = 0; i < warp_size; ++i)
      if (lanes >> i & 1) sum += weight[i] * x.numbers.get(x.at(b, h, first + i) + c);
    target[c] = sum;
  }
}
template <class A>
NYSTROM_DEVICE void clear(A* target, std::int64_t count) {
  for (std::int64_t i = lane_index(); i < count; i += warp_size) target[i] = 0;
}

/// The row of this warp in the grid, which has `rows` rows a head.
struct Row {
  std::int64_t b, h, index, flat;
  NYSTROM_DEVICE Row(std::int64_t heads, std::int64_t rows)
      : flat(static_cast<std::int64_t>(blockIdx.x) * warps + warp_index()) {
    index = flat % rows;
    h = flat / rows % heads;
    b = flat / rows / heads;
  }
};

template <class A>
__global__ void forward_kernel(AttentionProblem<A> p, Heads<A, false> out, A* log_sum_exp) {
  const Row at(p.heads, p.q.rows);
  if (at.b >= p.batch) return;
  const Keys<A> keys(p, at.b);
  A* q = dynamic_shared<A>() + warp_index() * (p.q.width + p.v.width + warp_size);
  A *sum_v = q + p.q.width, *weight = sum_v + p.v.width;
  load_row(p.q, p.q.at(at.b, at.h, at.index), q);
  clear(sum_v, p.v.width);
  __syncwarp();
  const A none = -static_cast<A>(INFINITY);
  A largest = none, sum = 0;
  for (std::int64_t first = 0; first < p.k.rows; first += warp_size) {
    const std::int64_t j = first + lane_index();
    const bool valid = keys(j);
    const A score = valid ? keys.scale * dot(q, p.k, p.k.at(at.b, at.h, j)) : none;
    const unsigned lanes = __ballot_sync(whole_warp, valid);
    if (lanes == 0) continue;
    const A updated = larger(largest, warp_max(score));
    const A e = valid ? math::exp(score - updated) : A(0), shrink = math::exp(largest - updated);
    sum = sum * shrink + warp_sum(e);
    largest = updated;
    weight[lane_index()] = e;
    __syncwarp();
    add_rows(p.v, at.b, at.h, first, lanes, weight, shrink, sum_v);
    __syncwarp();
  }
  const A norm = sum > 0 ? 1 / sum : A(0);
  for (std::int64_t c = lane_index(); c < p.v.width; c += warp_size) sum_v[c] *= norm;
  __syncwarp();
  store_row(out, out.at(at.b, at.h, at.index), sum_v);
  if (lane_index() == 0) log_sum_exp[at.flat] = sum > 0 ? largest + static_cast<A>(log(sum)) : none;
}

/// P and dS of one pair, which a query's warp and a key's warp both compute.
template <class A>
struct Pair {
  A p, dp, ds;
  NYSTROM_DEVICE Pair(A score, A lse, A gradient, A inner, A scale) : dp(gradient) {
    p = lse == -static_cast<A>(INFINITY) ? A(0) : math::exp(score - lse);
    ds = scale * p * (dp - inner);
  }
};

/// dq = dS k; also writes ⟨out, dout⟩ of each query for the other kernel. Without `out` it is Σ
/// over the keys of P ∘ dP.
template <class A>
__global__ void query_grad_kernel(AttentionProblem<A> p, Heads<A, true> out, const A* log_sum_exp,
                                  Heads<A, true> dout, Heads<A, false> dq, A* inner) {
  const Row at(p.heads, p.q.rows);
  if (at.b >= p.batch) return;
  const Keys<A> keys(p, at.b);
  A* q = dynamic_shared<A>() + warp_index() * (2 * p.q.width + p.v.width + warp_size);
  A *grad = q + p.q.width, *sum = grad + p.v.width, *weight = sum + p.q.width;
  load_row(p.q, p.q.at(at.b, at.h, at.index), q);
  load_row(dout, dout.at(at.b, at.h, at.index), grad);
  clear(sum, p.q.width);
  __syncwarp();
  const A lse = log_sum_exp[at.flat];
  const auto pair_with = [&](std::int64_t j, A inner_product) {
    return Pair<A>(keys.scale * dot(q, p.k, p.k.at(at.b, at.h, j)), lse,
                   dot(grad, p.v, p.v.at(at.b, at.h, j)), inner_product, p.scale);
  };
  A shift = 0;
  if (out.numbers.data) {
    for (std::int64_t i = lane_index(); i < p.v.width; i += warp_size)
      shift += grad[i] * out.numbers.get(out.at(at.b, at.h, at.index) + i);
  } else {
    for (std::int64_t j = lane_index(); j < p.k.rows; j += warp_size) {
      if (!keys(j)) continue;
      const Pair<A> pair = pair_with(j, 0);
      shift += pair.p * pair.dp;
    }
  }
  shift = warp_sum(shift);
  if (lane_index() == 0) inner[at.flat] = shift;
  for (std::int64_t first = 0; first < p.k.rows; first += warp_size) {
    const std::int64_t j = first + lane_index();
    const bool valid = keys(j);
    const unsigned lanes = __ballot_sync(whole_warp, valid);
    if (valid) weight[lane_index()] = pair_with(j, shift).ds;
    __syncwarp();
    add_rows(p.k, at.b, at.h, first, lanes, weight, A(1), sum);
    __syncwarp();
  }
  store_row(dq, dq.at(at.b, at.h, at.index), sum);
}

/// dv = Pᵀ dout, dk = dSᵀ q.
template <class A>
__global__ void key_grad_kernel(AttentionProblem<A> p, const A* log_sum_exp, Heads<A, true> dout,
                                const A* inner, Heads<A, false> dk, Heads<A, false> dv) {
  const Row at(p.heads, p.k.rows);
  if (at.b >= p.batch) return;
  const Keys<A> keys(p, at.b);
  A* k = dynamic_shared<A>() + warp_index() * 2 * (p.k.width + p.v.width + warp_size);
  A *v = k + p.k.width, *sum_k = v + p.v.width, *sum_v = sum_k + p.k.width,
    *weight_p = sum_v + p.v.width, *weight_s = weight_p + warp_size;
  load_row(p.k, p.k.at(at.b, at.h, at.index), k);
  load_row(p.v, p.v.at(at.b, at.h, at.index), v);
  clear(sum_k, p.k.width);
  clear(sum_v, p.v.width);
  __syncwarp();
  for (std::int64_t first = 0; keys(at.index) && first < p.q.rows; first += warp_size) {
    const std::int64_t r = first + lane_index(), flat = (at.b * p.heads + at.h) * p.q.rows + r;
    const unsigned lanes = __ballot_sync(whole_warp, r < p.q.rows);
    if (r < p.q.rows) {
      const A score = keys.scale * dot(k, p.q, p.q.at(at.b, at.h, r)),
              dp = dot(v, dout, dout.at(at.b, at.h, r));
      const Pair<A> pair(score, log_sum_exp[flat], dp, inner[flat], p.scale);
      weight_p[lane_index()] = pair.p;
      weight_s[lane_index()] = pair.ds;
    }
    __syncwarp();
    add_rows(p.q, at.b, at.h, first, lanes, weight_s, A(1), sum_k);
    add_rows(dout, at.b, at.h, first, lanes, weight_p, A(1), sum_v);
    __syncwarp();
  }
  store_row(dk, dk.at(at.b, at.h, at.index), sum_k);
  store_row(dv, dv.at(at.b, at.h, at.index), sum_v);
}

template <class A>
std::size_t shared_bytes(std::int64_t numbers) {
  return sizeof(A) * warps * static_cast<std::size_t>(numbers);
}

}  // namespace

void attention_plain(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                     View out, View log_sum_exp) {
  const AnyKey any(q, key_mask, empty);
  visit_accumulate(log_sum_exp.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    const auto grid = static_cast<unsigned>(divide_up(q.shape[0] * q.shape[1] * q.shape[2], warps));
    launch(forward_kernel<A>, dim3(grid), dim3(warps * warp_size),
           shared_bytes<A>(q.shape[3] + v.shape[3] + warp_size),
           problem_of<A>(q, k, v, key_mask, any, scale), heads_of<A>(out), log_sum_exp.as<A>());
  });
}

void attention_plain_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                          CView out, CView log_sum_exp, CView dout, View dq, View dk, View dv) {
  const AnyKey any(q, key_mask, empty);
  visit_accumulate(log_sum_exp.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    const std::int64_t heads = q.shape[0] * q.shape[1];
    const Workspace<A> inner(dq, heads * q.shape[2]);
    const auto problem = problem_of<A>(q, k, v, key_mask, any, scale);
    launch(query_grad_kernel<A>, dim3(static_cast<unsigned>(divide_up(heads * q.shape[2], warps))),
           dim3(warps * warp_size), shared_bytes<A>(2 * q.shape[3] + v.shape[3] + warp_size),
           problem, heads_of<A>(out), log_sum_exp.as<A>(), heads_of<A>(dout), heads_of<A>(dq),
           inner.get());
    launch(key_grad_kernel<A>, dim3(static_cast<unsigned>(divide_up(heads * k.shape[2], warps))),
           dim3(warps * warp_size), shared_bytes<A>(2 * (q.shape[3] + v.shape[3] + warp_size)),
           problem, log_sum_exp.as<A>(), heads_of<A>(dout), inner.get(), heads_of<A>(dk),
           heads_of<A>(dv));
  });
}

}  // namespace nystrom::cuda
