#include "core/cuda/attention/attention_forms.h"

#include <cmath>

#include "core/cuda/attention/attention_problem.cuh"
#include "core/cuda/shared.cuh"
#include "core/math.h"

namespace nystrom::cuda {
namespace {

constexpr int warps = 4;  // warps of a block

template <class A, bool Constant>
NYSTROM_DEVICE void load_row(const HeadRows<A, Constant>& x, int r, A* target) {
  for (std::int64_t i = lane_index(); i < x.width; i += warp_size)
    target[i] = x.numbers.get(x.at(r) + i);
}
template <class A>
NYSTROM_DEVICE void store_row(const HeadRows<A, false>& x, int r, const A* source) {
  for (std::int64_t i = lane_index(); i < x.width; i += warp_size)
    x.numbers.set(x.at(r) + i, source[i]);
}
template <class A>
NYSTROM_DEVICE A dot(const A* x, const HeadRows<A, true>& y, int r) {
  A sum = 0;
  for (std::int64_t i = 0; i < y.width; ++i) sum += x[i] * y.numbers.get(y.at(r) + i);
  return sum;
}
/// target = target · shrink + Σ over the warp's lanes i with a bit in `lanes` of weight[i] · row
/// first + i.
template <class A>
NYSTROM_DEVICE void add_rows(const HeadRows<A, true>& x, int first, unsigned lanes, const A* weight,
                             A shrink, A* target) {
  for (std::int64_t c = lane_index(); c < x.width; c += warp_size) {
    A sum = target[c] * shrink;
    for (int i = 0; i < warp_size; ++i)
      if (lanes >> i & 1) sum += weight[i] * x.numbers.get(x.at(first + i) + c);
    target[c] = sum;
  }
}
template <class A>
NYSTROM_DEVICE void clear(A* target, std::int64_t count) {
  for (std::int64_t i = lane_index(); i < count; i += warp_size) target[i] = 0;
}

/// The row of this warp among the queries or the keys, in a grid of as many rows a head as the
/// longest span has.
struct Row {
  bool exists;
  int index;
  Place at;
  template <class A>
  NYSTROM_DEVICE Row(const AttentionProblem<A>& p, const DeviceSpans& spans, Span Place::*own) {
    const std::int64_t flat = static_cast<std::int64_t>(blockIdx.x) * warps + warp_index();
    index = static_cast<int>(flat % spans.longest);
    exists = flat / spans.longest < p.all_heads();
    if (exists) at = p.place(flat / spans.longest);
    exists = exists && index < (at.*own).rows;
  }
};

template <class A>
__global__ void forward_kernel(AttentionProblem<A> p, Heads<A, false> out,
                               PerQuery<A> log_sum_exp) {
  const Row row(p, p.queries, &Place::queries);
  if (!row.exists) return;
  const Place& at = row.at;
  const Keys<A> keys(p, at);
  const auto k = p.k.of(at.keys, at.head), v = p.v.of(at.keys, at.head);
  A* q = dynamic_shared<A>() + warp_index() * (p.q.width + p.v.width + warp_size);
  A *sum_v = q + p.q.width, *weight = sum_v + p.v.width;
  load_row(p.q.of(at.queries, at.head), row.index, q);
  clear(sum_v, p.v.width);
  __syncwarp();
  const A none = -static_cast<A>(INFINITY);
  A largest = none, sum = 0;
  const Reach seen(row.index, keys.count, p.reach);
  for (int first = seen.begin; first < seen.end; first += warp_size) {
    const int j = first + lane_index();
    const bool valid = j < seen.end && keys(j);
    const A score = valid ? keys.scale * dot(q, k, j) : none;
    const unsigned lanes = __ballot_sync(whole_warp, valid);
    if (lanes == 0) continue;
    const A updated = larger(largest, warp_max(score));
    const A e = valid ? math::exp(score - updated) : A(0), shrink = math::exp(largest - updated);
    sum = sum * shrink + warp_sum(e);
    largest = updated;
    weight[lane_index()] = e;
    __syncwarp();
    add_rows(v, first, lanes, weight, shrink, sum_v);
    __syncwarp();
  }
  const A norm = sum > 0 ? 1 / sum : A(0);
  for (std::int64_t c = lane_index(); c < p.v.width; c += warp_size) sum_v[c] *= norm;
  __syncwarp();
  store_row(out.of(at.queries, at.head), row.index, sum_v);
  if (lane_index() == 0)
    log_sum_exp.of(at.queries, at.head)[row.index] =
        sum > 0 ? largest + static_cast<A>(log(sum)) : none;
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
__global__ void query_grad_kernel(AttentionProblem<A> p, Heads<A, true> out,
                                  PerQuery<const A> log_sum_exp, Heads<A, true> dout,
                                  Heads<A, false> dq, PerQuery<A> inner) {
  const Row row(p, p.queries, &Place::queries);
  if (!row.exists) return;
  const Place& at = row.at;
  const Keys<A> keys(p, at);
  const auto k = p.k.of(at.keys, at.head), v = p.v.of(at.keys, at.head);
  A* q = dynamic_shared<A>() + warp_index() * (2 * p.q.width + p.v.width + warp_size);
  A *grad = q + p.q.width, *sum = grad + p.v.width, *weight = sum + p.q.width;
  load_row(p.q.of(at.queries, at.head), row.index, q);
  load_row(dout.of(at.queries, at.head), row.index, grad);
  clear(sum, p.q.width);
  __syncwarp();
  const A lse = log_sum_exp.of(at.queries, at.head)[row.index];
  const auto pair_with = [&](int j, A inner_product) {
    return Pair<A>(keys.scale * dot(q, k, j), lse, dot(grad, v, j), inner_product, p.scale);
  };
  const Reach seen(row.index, keys.count, p.reach);
  A shift = 0;
  if (out.numbers.data) {
    const auto results = out.of(at.queries, at.head);
    for (std::int64_t i = lane_index(); i < p.v.width; i += warp_size)
      shift += grad[i] * results.numbers.get(results.at(row.index) + i);
  } else {
    for (int j = seen.begin + lane_index(); j < seen.end; j += warp_size) {
      if (!keys(j)) continue;
      const Pair<A> pair = pair_with(j, 0);
      shift += pair.p * pair.dp;
    }
  }
  shift = warp_sum(shift);
  if (lane_index() == 0) inner.of(at.queries, at.head)[row.index] = shift;
  for (int first = seen.begin; first < seen.end; first += warp_size) {
    const int j = first + lane_index();
    const bool valid = j < seen.end && keys(j);
    const unsigned lanes = __ballot_sync(whole_warp, valid);
    if (valid) weight[lane_index()] = pair_with(j, shift).ds;
    __syncwarp();
    add_rows(k, first, lanes, weight, A(1), sum);
    __syncwarp();
  }
  store_row(dq.of(at.queries, at.head), row.index, sum);
}

/// dv = Pᵀ dout, dk = dSᵀ q.
template <class A>
__global__ void key_grad_kernel(AttentionProblem<A> p, PerQuery<const A> log_sum_exp,
                                Heads<A, true> dout_heads, PerQuery<A> inner, Heads<A, false> dk,
                                Heads<A, false> dv) {
  const Row row(p, p.keys, &Place::keys);
  if (!row.exists) return;
  const Place& at = row.at;
  const Keys<A> keys(p, at);
  const auto q = p.q.of(at.queries, at.head), dout = dout_heads.of(at.queries, at.head);
  A* k = dynamic_shared<A>() + warp_index() * 2 * (p.k.width + p.v.width + warp_size);
  A *v = k + p.k.width, *sum_k = v + p.v.width, *sum_v = sum_k + p.k.width,
    *weight_p = sum_v + p.v.width, *weight_s = weight_p + warp_size;
  load_row(p.k.of(at.keys, at.head), row.index, k);
  load_row(p.v.of(at.keys, at.head), row.index, v);
  clear(sum_k, p.k.width);
  clear(sum_v, p.v.width);
  __syncwarp();
  const Reach seen(row.index, q.rows, p.reach);
  for (int first = seen.begin; keys(row.index) && first < seen.end; first += warp_size) {
    const int r = first + lane_index();
    const unsigned lanes = __ballot_sync(whole_warp, r < seen.end);
    if (r < seen.end) {
      const Pair<A> pair(keys.scale * dot(k, q, r), log_sum_exp.of(at.queries, at.head)[r],
                         dot(v, dout, r), inner.of(at.queries, at.head)[r], p.scale);
      weight_p[lane_index()] = pair.p;
      weight_s[lane_index()] = pair.ds;
    }
    __syncwarp();
    add_rows(q, first, lanes, weight_s, A(1), sum_k);
    add_rows(dout, first, lanes, weight_p, A(1), sum_v);
    __syncwarp();
  }
  store_row(dk.of(at.keys, at.head), row.index, sum_k);
  store_row(dv.of(at.keys, at.head), row.index, sum_v);
}

/// A warp for each row of the spans.
template <class A>
dim3 blocks_of(const AttentionProblem<A>& p, const DeviceSpans& spans) {
  return dim3(static_cast<unsigned>(divide_up(p.heads * spans.count * spans.longest, warps)));
}

template <class A>
std::size_t shared_bytes(std::int64_t numbers) {
  return sizeof(A) * warps * static_cast<std::size_t>(numbers);
}

}  // namespace

void attention_plain(const AttentionOperands& o, View out, View log_sum_exp) {
  const AnyKey any(o);
  visit_accumulate(log_sum_exp.dtype, [&]<class A>(TypeTag<A>) {
    const auto p = problem_of<A>(o, any);
    launch(forward_kernel<A>, blocks_of(p, p.queries), dim3(warps * warp_size),
           shared_bytes<A>(p.q.width + p.v.width + warp_size), p, heads_of<A>(out),
           per_query<A>(log_sum_exp));
  });
}

void attention_plain_grad(const AttentionOperands& o, CView out, CView log_sum_exp, CView dout,
                          View dq, View dk, View dv) {
  const AnyKey any(o);
  visit_accumulate(log_sum_exp.dtype, [&]<class A>(TypeTag<A>) {
    const auto p = problem_of<A>(o, any);
    const auto sums = per_query<const A>(log_sum_exp);
    const Workspace<A> memory(dq, log_sum_exp.numel());
    const PerQuery<A> inner{memory.get(), sums.first, sums.head};
    launch(query_grad_kernel<A>, blocks_of(p, p.queries), dim3(warps * warp_size),
           shared_bytes<A>(2 * p.q.width + p.v.width + warp_size), p, heads_of<A>(out), sums,
           heads_of<A>(dout), heads_of<A>(dq), inner);
    launch(key_grad_kernel<A>, blocks_of(p, p.keys), dim3(warps * warp_size),
           shared_bytes<A>(2 * (p.q.width + p.v.width + warp_size)), p, sums, heads_of<A>(dout),
           inner, heads_of<A>(dk), heads_of<A>(dv));
  });
}

}  // namespace nystrom::cuda
