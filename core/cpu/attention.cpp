// Blockwise attention with online softmax: only one block of scores exists at a time (Rabe &
// Staats, arXiv 2112.05682; Dao et al., arXiv 2205.14135). Operands of any type are read into
// blocks of T: of the accumulate type, or of pairs of bf16 numbers where the processor multiplies
// these. With pairs, the weights are rounded to bf16 before they are multiplied.
#include "core/cpu/level.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/parallel.h"
#include "core/cpu/tile_operands.h"
#include "core/kernels.h"
#include "core/math.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

constexpr std::int64_t block = 64;  // queries and keys of a score block
static_assert(few_keys <= block);

NYSTROM_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

template <class A>
NYSTROM_INLINE void store_rows(const View& view, Head head, std::int64_t first, std::int64_t rows,
                               const A* source) {
  const std::int64_t width = view.dim(-1);
  for (std::int64_t r = 0; r < rows; ++r)
    store_row(view, head.offset + (first + r) * head.row, source + r * width, width);
}

NYSTROM_INLINE bool any_valid(const std::uint8_t* valid, std::int64_t first, std::int64_t count) {
  if (!valid) return true;
  for (std::int64_t j = first; j < first + count; ++j)
    if (valid[j]) return true;
  return false;
}

/// scores[r, j] = −∞ if key first + j is masked.
template <class A>
NYSTROM_INLINE void mask_scores(A* scores, std::int64_t rows, std::int64_t keys,
                                const std::uint8_t* valid, std::int64_t first) {
  if (!valid) return;
  for (std::int64_t j = 0; j < keys; ++j) {
    if (valid[first + j]) continue;
    for (std::int64_t r = 0; r < rows; ++r)
      scores[r * block + j] = -std::numeric_limits<A>::infinity();
  }
}

/// The columns of a score block that a row scores: of the keys from `key` on, those within reach of
/// the row's query.
struct Columns {
  std::int64_t begin, end;
  NYSTROM_INLINE Columns(std::int64_t query, std::int64_t key, std::int64_t count,
                         std::int64_t reach)
      : begin(std::max<std::int64_t>(query - reach - key, 0)),
        end(smaller(query + reach + 1 - key, count)) {}
  NYSTROM_INLINE std::int64_t size() const { return end > begin ? end - begin : 0; }
};

/// Whether a query of first … first + rows reaches a key of key … key + count.
NYSTROM_INLINE bool meet(std::int64_t first, std::int64_t rows, std::int64_t key,
                         std::int64_t count, std::int64_t reach) {
  return key <= first + rows - 1 + reach && first <= key + count - 1 + reach;
}

/// Adds one block of scores to a row's running maximum and sum. Stores the exponentials in
/// `scores`, and returns the factor that rescales earlier sums.
template <class A>
NYSTROM_INLINE A online_softmax_row(A* scores, std::int64_t keys, A& largest, A& sum) {
  A block_max = scores[0];
#pragma omp simd reduction(max : block_max)
  for (std::int64_t j = 0; j < keys; ++j) block_max = scores[j] > block_max ? scores[j] : block_max;
  const A updated = block_max > largest ? block_max : largest;
  A block_sum = 0;
#pragma omp simd reduction(+ : block_sum)
  for (std::int64_t j = 0; j < keys; ++j) {
    scores[j] = math::exp(scores[j] - updated);
    block_sum += scores[j];
  }
  const A shrink = updated > largest ? math::exp(largest - updated) : A(1);
  largest = updated;
  sum = sum * shrink + block_sum;
  return shrink;
}

/// The unmasked keys of one span, and how queries score them.
template <class A>
struct Keys {
  const std::uint8_t* valid;  // null: all keys
  std::int64_t count;         // keys to the last unmasked one
  A scale;
  std::int64_t reach;

  NYSTROM_INLINE Keys(const CView& mask, std::int64_t part, std::int64_t all, EmptyRows empty,
                      const Scoring& scoring)
      : valid(mask ? mask.as<std::uint8_t>() + part * mask.shape[1] : nullptr),
        count(all),
        scale(static_cast<A>(scoring.scale)),
        reach(scoring.reach) {
    if (empty == EmptyRows::uniform && !any_valid(valid, 0, all)) {
      valid = nullptr;  // equal scores: a uniform softmax over all keys
      scale = 0;
    }
    while (valid && count > 0 && !valid[count - 1]) --count;
  }
};

/// The queries of all spans and heads in groups, which share the loading of their keys.
class Groups {
 public:
  Groups(const CView& q, const Spans& queries) : parts_(parts_of(q, queries)), ends_(parts_) {
    const std::int64_t heads = q.shape[1], dense = queries.bounds ? 0 : q.shape[2];
    // At most 8 blocks a group, and few enough that every thread has two groups. Results do not
    // depend on it.
    const std::int64_t share = heads * count(queries, dense, block) / (2 * num_threads());
    size_ = block * (share < 1 ? 1 : smaller(share, 8));
    total_ = heads * count(queries, dense, size_);
  }
  std::int64_t size() const { return size_; }
  std::int64_t total() const { return total_; }

  struct Place {
    std::int64_t head, part, first;  // the first query within the span
  };
  NYSTROM_INLINE Place operator[](std::int64_t index) const {
    const std::int64_t a_head = ends_[parts_ - 1], group = index % a_head;
    std::int64_t part = 0;
    while (ends_[part] <= group) ++part;
    return {index / a_head, part, (group - (part > 0 ? ends_[part - 1] : 0)) * size_};
  }

 private:
  /// The groups of `size` queries of one head; ends_[i] are those of the spans up to i.
  std::int64_t count(const Spans& queries, std::int64_t dense, std::int64_t size) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < parts_; ++i)
      ends_[i] = sum += (span_of(queries, i, dense).rows + size - 1) / size;
    return sum;
  }

  std::int64_t parts_, size_, total_;
  Scratch<std::int64_t> ends_;
};

template <class T>
struct ForwardScratch {
  using A = SumOf<T>;
  Scratch<T> q, kt, rows, v, weights;
  Scratch<A> scores, sum_v, largest, sum;
  ForwardScratch(std::int64_t group, std::int64_t d, std::int64_t dv)
      : q(group * operands<T>(d)),
        kt(block * operands<T>(d)),
        rows(block * operands<T>(std::max(d, dv))),
        v(block * dv),
        weights(block * block),
        scores(block * block),
        sum_v(group * dv),
        largest(group),
        sum(group) {
    std::fill_n(kt.get(), block * operands<T>(d), T{});
  }
};

/// Adds the values of `keys` keys from `key` on, times their weights, to the sums of one block of
/// queries, of which `query` is the first.
template <class T>
NYSTROM_INLINE void add_values(const ForwardScratch<T>& s, std::int64_t first, std::int64_t rows,
                               std::int64_t query, std::int64_t key, std::int64_t keys,
                               std::int64_t reach, const T* v, std::int64_t dv) {
  using A = SumOf<T>;
  A* sum_v = s.sum_v.get() + first * dv;
  for (std::int64_t r = 0; r < rows; ++r) {
    A* scores = s.scores.get() + r * block;
    const Columns seen(query + r, key, keys, reach);
    std::fill_n(scores, smaller(seen.begin, keys), A(0));
    if (seen.end < keys)
      std::fill_n(scores + std::max<std::int64_t>(seen.end, 0),
                  keys - std::max<std::int64_t>(seen.end, 0), A(0));
    if (seen.size() == 0) continue;
    const A shrink = online_softmax_row(scores + seen.begin, seen.size(), s.largest[first + r],
                                        s.sum[first + r]);
    if (shrink == 1) continue;
    for (std::int64_t i = 0; i < dv; ++i) sum_v[r * dv + i] *= shrink;
  }
  const T* weights = as_operands<T>(s.scores.get(), rows, keys, block, s.weights.get());
  tile_gemm<T>(rows, dv, operands<T>(keys), A(1), {weights, operands<T>(block), 1}, v, dv, sum_v,
               dv, true);
}

/// The operands of one head and span.
struct Operands {
  Head q, k, v;
  Operands(const CView& q_view, const CView& k_view, const CView& v_view, const Spans& queries,
           const Spans& keys, std::int64_t part, std::int64_t head)
      : q(head_of(q_view, queries, part, head)),
        k(head_of(k_view, keys, part, head)),
        v(head_of(v_view, keys, part, head)) {}
};

/// The attention of queries first … first + rows of one head to all keys. A block of keys is loaded
/// once for all these queries.
template <class T>
void forward_group(const CView& q, const CView& k, const CView& v, const Operands& of,
                   Keys<SumOf<T>> valid_keys, std::int64_t first, std::int64_t rows,
                   const ForwardScratch<T>& s, const View& out, Head of_out, SumOf<T>* lse) {
  using A = SumOf<T>;
  const std::int64_t dv = v.dim(-1), d = operands<T>(q.dim(-1));
  const auto [valid, keys, scale, reach] = valid_keys;
  load_rows<T>(q, of.q, nullptr, first, rows, s.q.get());
  std::fill_n(s.largest.get(), rows, -std::numeric_limits<A>::infinity());
  std::fill_n(s.sum.get(), rows, A(0));
  std::fill_n(s.sum_v.get(), rows * dv, A(0));
  for (std::int64_t j = std::max<std::int64_t>(first - reach, 0) / block * block; j < keys;
       j += block) {
    const std::int64_t count = smaller(block, keys - j);
    if (!meet(first, rows, j, count, reach)) break;
    if (!any_valid(valid, j, count)) continue;
    load_rows<T>(k, of.k, valid, j, count, s.rows.get());
    transpose_block(s.rows.get(), count, d, d, s.kt.get(), block);
    load_rows<T>(v, of.v, valid, j, count, s.rows.get());
    const T* values = interleave<T>(s.rows.get(), count, dv, s.v.get());
    for (std::int64_t r = 0; r < rows; r += block) {
      const std::int64_t queries = smaller(block, rows - r);
      if (!meet(first + r, queries, j, count, reach)) continue;
      tile_gemm<T>(queries, whole_vectors<A>(count), d, scale, {s.q.get() + r * d, d, 1},
                   s.kt.get(), block, s.scores.get(), block, false);
      mask_scores(s.scores.get(), queries, count, valid, j);
      add_values<T>(s, r, queries, first + r, j, count, reach, values, dv);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const A norm = s.sum[r] > 0 ? 1 / s.sum[r] : A(0);
    for (std::int64_t i = 0; i < dv; ++i) s.sum_v[r * dv + i] *= norm;
    lse[first + r] = s.sum[r] > 0 ? s.largest[r] + static_cast<A>(std::log(s.sum[r]))
                                  : -std::numeric_limits<A>::infinity();
  }
  store_rows(out, of_out, first, rows, s.sum_v.get());
}

/// Rows as operands of both kinds: of products over their width, and of sums over rows.
template <class T>
struct Rows {
  Scratch<T> in_order, interleaved;
  Rows(std::int64_t count, std::int64_t width)
      : in_order(count * operands<T>(width)),
        interleaved(numbers_in<T> > 1 ? operands<T>(count) * width : 0) {}
  /// Loads rows of a head. Returns the operands of sums over rows.
  NYSTROM_INLINE const T* load(const CView& view, Head head, const std::uint8_t* valid,
                               std::int64_t first, std::int64_t count) const {
    load_rows<T>(view, head, valid, first, count, in_order.get());
    return interleave<T>(in_order.get(), count, view.dim(-1), interleaved.get());
  }
};

template <class T>
struct BackwardScratch {
  using A = SumOf<T>;
  Rows<T> q, dout, k, weights, dscores;
  Scratch<T> v, kt, vt;
  Scratch<A> p, dp, dq, dk, dv, inner;
  BackwardScratch(std::int64_t queries, std::int64_t d, std::int64_t width)
      : q(queries, d),
        dout(queries, width),
        k(block, d),
        weights(block, block),
        dscores(block, block),
        v(block * operands<T>(width)),
        kt(block * operands<T>(d)),
        vt(block * operands<T>(width)),
        p(block * block),
        dp(block * block),
        dq(queries * d),
        dk(block * d),
        dv(block * width),
        inner(queries) {
    std::fill_n(kt.get(), block * operands<T>(d), T{});
    std::fill_n(vt.get(), block * operands<T>(width), T{});
  }
};

/// p = exp(scores − lse) and dp ← dS = scale · p ∘ (dp − inner), for one block of rows; both 0 for
/// keys from `key` on that are out of reach of the queries from `query` on. Without `inner` the
/// block has all keys, and inner is the sum of p ∘ dp.
template <class A>
NYSTROM_INLINE void score_gradient(A* p, A* dp, const A* lse, const A* inner, std::int64_t rows,
                                   std::int64_t query, std::int64_t key, std::int64_t keys, A scale,
                                   std::int64_t reach) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const bool empty = lse[r] == -std::numeric_limits<A>::infinity();
    const A total = lse[r];
    A* pr = p + r * block;
    A* dr = dp + r * block;
#pragma omp simd
    for (std::int64_t j = 0; j < keys; ++j) pr[j] = empty ? A(0) : math::exp(pr[j] - total);
    A shift = inner ? inner[r] : A(0);
    if (!inner) {
#pragma omp simd reduction(+ : shift)
      for (std::int64_t j = 0; j < keys; ++j) shift += pr[j] * dr[j];
    }
#pragma omp simd
    for (std::int64_t j = 0; j < keys; ++j) dr[j] = scale * pr[j] * (dr[j] - shift);
    const Columns seen(query + r, key, keys, reach);
    if (seen.size() == keys) continue;
    for (std::int64_t j = 0; j < keys; ++j) {
      if (j >= seen.begin && j < seen.end) continue;
      pr[j] = 0;
      dr[j] = 0;
    }
  }
}

/// inner[r] = ⟨out[r], dout[r]⟩.
template <class A>
NYSTROM_INLINE void inner_products(const CView& out, Head of_out, const CView& dout, Head of_dout,
                                   A* inner) {
  const std::int64_t width = out.dim(-1);
  const Scratch<A> a(width), b(width);
  for (std::int64_t r = 0; r < of_out.rows; ++r) {
    load_row(out, of_out.offset + r * of_out.row, a.get(), width);
    load_row(dout, of_dout.offset + r * of_dout.row, b.get(), width);
    const A* x = a.get();
    const A* y = b.get();
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < width; ++i) sum += x[i] * y[i];
    inner[r] = sum;
  }
}

/// The gradients of one head. With P = softmax(scale · q kᵀ): dv = Pᵀ dout; dP = dout vᵀ; dS =
/// scale · P ∘ (dP − rowsum(dout ∘ out)); dq = dS k; dk = dSᵀ q.
template <class T>
void backward_head(const CView& q, const CView& k, const CView& v, const Operands& of,
                   Keys<SumOf<T>> valid_keys, SumOf<T> scale, const CView& out, Head of_out,
                   const SumOf<T>* lse, const CView& dout, Head of_dout,
                   const BackwardScratch<T>& s, const View& dq, const View& dk, const View& dv,
                   const Operands& of_grads) {
  using A = SumOf<T>;
  const std::int64_t queries = of.q.rows, keys = of.k.rows, d = q.dim(-1), width = v.dim(-1);
  const std::int64_t d_operands = operands<T>(d), width_operands = operands<T>(width);
  const std::uint8_t* valid = valid_keys.valid;
  const T* q_rows = s.q.load(q, of.q, nullptr, 0, queries);
  const T* dout_rows = s.dout.load(dout, of_dout, nullptr, 0, queries);
  if (out) inner_products(out, of_out, dout, of_dout, s.inner.get());
  std::fill_n(s.dq.get(), queries * d, A(0));
  for (std::int64_t j = 0; j < keys; j += block) {
    const std::int64_t all = smaller(block, keys - j), count = smaller(all, valid_keys.count - j);
    std::fill_n(s.dk.get(), all * d, A(0));
    std::fill_n(s.dv.get(), all * width, A(0));
    if (count > 0 && any_valid(valid, j, count)) {
      const T* k_rows = s.k.load(k, of.k, valid, j, count);
      load_rows<T>(v, of.v, valid, j, count, s.v.get());
      transpose_block(s.k.in_order.get(), count, d_operands, d_operands, s.kt.get(), block);
      transpose_block(s.v.get(), count, width_operands, width_operands, s.vt.get(), block);
      const std::int64_t columns = whole_vectors<A>(count), row = operands<T>(block);
      for (std::int64_t first = 0; first < queries; first += block) {
        const std::int64_t rows = smaller(block, queries - first), summed = operands<T>(rows);
        if (!meet(first, rows, j, count, valid_keys.reach)) continue;
        tile_gemm<T>(rows, columns, d_operands, valid_keys.scale,
                     {s.q.in_order.get() + first * d_operands, d_operands, 1}, s.kt.get(), block,
                     s.p.get(), block, false);
        mask_scores(s.p.get(), rows, count, valid, j);
        tile_gemm<T>(rows, columns, width_operands, A(1),
                     {s.dout.in_order.get() + first * width_operands, width_operands, 1},
                     s.vt.get(), block, s.dp.get(), block, false);
        score_gradient(s.p.get(), s.dp.get(), lse + first, out ? s.inner.get() + first : nullptr,
                       rows, first, j, count, scale, valid_keys.reach);
        const T* p = as_operands<T>(s.p.get(), rows, count, block, s.weights.in_order.get());
        const T* ds = as_operands<T>(s.dp.get(), rows, count, block, s.dscores.in_order.get());
        const T* p_rows = interleave<T>(p, rows, block, s.weights.interleaved.get());
        const T* ds_rows = interleave<T>(ds, rows, block, s.dscores.interleaved.get());
        tile_gemm<T>(count, width, summed, A(1), {p_rows, 1, block},
                     dout_rows + operands<T>(first) * width, width, s.dv.get(), width, true);
        tile_gemm<T>(rows, d, operands<T>(count), A(1), {ds, row, 1}, k_rows, d,
                     s.dq.get() + first * d, d, true);
        tile_gemm<T>(count, d, summed, A(1), {ds_rows, 1, block}, q_rows + operands<T>(first) * d,
                     d, s.dk.get(), d, true);
      }
    }
    store_rows(dk, of_grads.k, j, all, s.dk.get());
    store_rows(dv, of_grads.v, j, all, s.dv.get());
  }
  store_rows(dq, of_grads.q, 0, queries, s.dq.get());
}

/// Whether pairs of bf16 numbers are the operands: an argument is bf16 already.
bool uses_pairs(const CView& q, const CView& k, const CView& v) {
  const bool rounded = q.dtype == DType::bf16 || k.dtype == DType::bf16 || v.dtype == DType::bf16;
  return rounded && pairs_fit(q.dim(-1)) && pairs_fit(v.dim(-1));
}

}  // namespace

void attention(CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
               EmptyRows empty, Scoring scoring, View out, View log_sum_exp) {
  const Groups groups(q, queries);
  visit_operands(uses_pairs(q, k, v), log_sum_exp.dtype, [&]<class T>(TypeTag<T>) {
    using A = SumOf<T>;
    parallel_ranges(groups.total(), 1, [&](std::int64_t begin, std::int64_t end) {
      const ForwardScratch<T> scratch(groups.size(), q.dim(-1), v.dim(-1));
      for (std::int64_t i = begin; i < end; ++i) {
        const auto [head, part, first] = groups[i];
        const Operands of(q, k, v, queries, keys, part, head);
        const Keys<A> valid_keys(key_mask, part, of.k.rows, empty, scoring);
        forward_group<T>(q, k, v, of, valid_keys, first, smaller(groups.size(), of.q.rows - first),
                         scratch, out, head_of(out, queries, part, head),
                         log_sum_exp_of<A>(log_sum_exp, queries, part, head));
      }
    });
  });
}

void attention_grad(CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
                    EmptyRows empty, Scoring scoring, CView out, CView log_sum_exp, CView dout,
                    View dq, View dk, View dv) {
  const std::int64_t parts = parts_of(q, queries);
  visit_operands(uses_pairs(q, k, v), log_sum_exp.dtype, [&]<class T>(TypeTag<T>) {
    using A = SumOf<T>;
    parallel_ranges(parts * q.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
      const BackwardScratch<T> scratch(queries.bounds ? queries.longest : q.shape[2], q.dim(-1),
                                       v.dim(-1));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t head = i / parts, part = i % parts;
        const Operands of(q, k, v, queries, keys, part, head),
            of_grads(dq, dk, dv, queries, keys, part, head);
        backward_head<T>(q, k, v, of, Keys<A>(key_mask, part, of.k.rows, empty, scoring),
                         static_cast<A>(scoring.scale), out, head_of(out, queries, part, head),
                         log_sum_exp_of<A>(log_sum_exp, queries, part, head), dout,
                         head_of(dout, queries, part, head), scratch, dq, dk, dv, of_grads);
      }
    });
  });
}

void attention_with_conv(CView q, CView k, CView v, Spans queries, Spans keys, double scale,
                         CView x, CView w, View out, View log_sum_exp) {
  attention(q, k, v, queries, keys, {}, EmptyRows::zero, scale, out, log_sum_exp);
  sequence_conv(x, w, queries, out, out);
}

void attention_grad_with_conv(CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
                              EmptyRows empty, double scale, CView out, CView log_sum_exp,
                              CView dout, CView w, CView dy, View dq, View dk, View dv, View dw) {
  attention_grad(q, k, v, queries, keys, key_mask, empty, scale, out, log_sum_exp, dout, dq, dk,
                 dv);
  sequence_conv_grad(v, w, keys, dy, dv, dv, dw);
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
