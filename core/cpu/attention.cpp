// Blockwise attention with online softmax: only one block of scores exists at a time (Rabe &
// Staats, arXiv 2112.05682; Dao et al., arXiv 2205.14135). Operands of any type are read into
// blocks of the accumulate type. So one template serves f32 and bf16.
#include "core/cpu/level.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/parallel.h"
#include "core/cpu/tile_gemm.h"
#include "core/kernels.h"
#include "core/math.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

constexpr std::int64_t block = 64;  // queries and keys of a score block

/// One head of one sample of a [b, h, rows, width] view.
struct Head {
  std::int64_t offset, row;
};

NYSTROM_INLINE Head head_of(const ViewBase& view, std::int64_t index) {
  const std::int64_t heads = view.shape[1];
  return {index / heads * view.stride[0] + index % heads * view.stride[1], view.stride[2]};
}

/// `count` columns of a score block, rounded up to whole vectors. Nothing reads the others.
template <class A>
NYSTROM_INLINE std::int64_t whole_vectors(std::int64_t count) {
  constexpr std::int64_t lanes = Vector<A>::lanes;
  return (count + lanes - 1) / lanes * lanes;
}

NYSTROM_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

template <class A>
NYSTROM_INLINE void load_rows(const CView& view, Head head, std::int64_t first, std::int64_t rows,
                              A* target) {
  const std::int64_t width = view.shape[3];
  for (std::int64_t r = 0; r < rows; ++r)
    load_row(view, head.offset + (first + r) * head.row, target + r * width, width);
}

/// load_rows with masked rows read as 0, because padding may hold anything, even infinities.
template <class A>
NYSTROM_INLINE void load_valid_rows(const CView& view, Head head, const std::uint8_t* valid,
                                    std::int64_t first, std::int64_t rows, A* target) {
  const std::int64_t width = view.shape[3];
  for (std::int64_t r = 0; r < rows; ++r) {
    if (!valid || valid[first + r]) {
      load_row(view, head.offset + (first + r) * head.row, target + r * width, width);
    } else {
      for (std::int64_t i = 0; i < width; ++i) target[r * width + i] = 0;
    }
  }
}

template <class A>
NYSTROM_INLINE void store_rows(const View& view, Head head, std::int64_t first, std::int64_t rows,
                               const A* source) {
  const std::int64_t width = view.shape[3];
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
  const A shrink = math::exp(largest - updated);
  largest = updated;
  sum = sum * shrink + block_sum;
  return shrink;
}

/// The unmasked keys of one sample, and the factor of its scores.
template <class A>
struct Keys {
  const std::uint8_t* valid;  // null: all keys
  std::int64_t count;         // keys to the last unmasked one
  A scale;

  NYSTROM_INLINE Keys(const CView& mask, std::int64_t sample, std::int64_t all, EmptyRows empty,
                      double factor)
      : valid(mask ? mask.as<std::uint8_t>() + sample * mask.shape[1] : nullptr),
        count(all),
        scale(static_cast<A>(factor)) {
    if (empty == EmptyRows::uniform && !any_valid(valid, 0, all)) {
      valid = nullptr;  // equal scores: a uniform softmax over all keys
      scale = 0;
    }
    while (valid && count > 0 && !valid[count - 1]) --count;
  }
};

template <class A>
struct ForwardScratch {
  Scratch<A> q, kt, k, v, scores, sum_v, largest, sum;
  ForwardScratch(std::int64_t d, std::int64_t dv)
      : q(block * d),
        kt(block * d),
        k(block * d),
        v(block * dv),
        scores(block * block),
        sum_v(block * dv),
        largest(block),
        sum(block) {
    std::fill_n(kt.get(), block * d, A(0));
  }
};

/// The attention of queries first … first + rows of one head to all keys.
template <class A>
void forward_block(const CView& q, const CView& k, const CView& v, Keys<A> valid_keys,
                   std::int64_t index, std::int64_t first, std::int64_t rows,
                   const ForwardScratch<A>& s, const View& out, const View& log_sum_exp) {
  const std::int64_t d = q.shape[3], dv = v.shape[3];
  const auto [valid, keys, scale] = valid_keys;
  load_rows(q, head_of(q, index), first, rows, s.q.get());
  for (std::int64_t r = 0; r < rows; ++r) {
    s.largest[r] = -std::numeric_limits<A>::infinity();
    s.sum[r] = 0;
    for (std::int64_t i = 0; i < dv; ++i) s.sum_v[r * dv + i] = 0;
  }
  for (std::int64_t j = 0; j < keys; j += block) {
    const std::int64_t count = smaller(block, keys - j);
    if (!any_valid(valid, j, count)) continue;
    load_valid_rows(k, head_of(k, index), valid, j, count, s.k.get());
    transpose_block(s.k.get(), count, d, d, s.kt.get(), block);
    tile_gemm<A>(rows, whole_vectors<A>(count), d, scale, {s.q.get(), d, 1}, s.kt.get(), block,
                 s.scores.get(), block, false);
    mask_scores(s.scores.get(), rows, count, valid, j);
    for (std::int64_t r = 0; r < rows; ++r) {
      const A shrink =
          online_softmax_row(s.scores.get() + r * block, count, s.largest[r], s.sum[r]);
      for (std::int64_t i = 0; i < dv; ++i) s.sum_v[r * dv + i] *= shrink;
    }
    load_valid_rows(v, head_of(v, index), valid, j, count, s.v.get());
    tile_gemm<A>(rows, dv, count, A(1), {s.scores.get(), block, 1}, s.v.get(), dv, s.sum_v.get(),
                 dv, true);
  }
  A* lse = log_sum_exp.as<A>() + index * q.shape[2] + first;
  for (std::int64_t r = 0; r < rows; ++r) {
    const A norm = s.sum[r] > 0 ? 1 / s.sum[r] : A(0);
    for (std::int64_t i = 0; i < dv; ++i) s.sum_v[r * dv + i] *= norm;
    lse[r] = s.sum[r] > 0 ? s.largest[r] + static_cast<A>(std::log(s.sum[r]))
                          : -std::numeric_limits<A>::infinity();
  }
  store_rows(out, head_of(out, index), first, rows, s.sum_v.get());
}

template <class A>
struct BackwardScratch {
  Scratch<A> q, dout, k, kt, v, vt, p, dp, dq, dk, dv, inner;
  BackwardScratch(std::int64_t queries, std::int64_t d, std::int64_t width)
      : q(queries * d),
        dout(queries * width),
        k(block * d),
        kt(block * d),
        v(block * width),
        vt(block * width),
        p(block * block),
        dp(block * block),
        dq(queries * d),
        dk(block * d),
        dv(block * width),
        inner(queries) {
    std::fill_n(kt.get(), block * d, A(0));
    std::fill_n(vt.get(), block * width, A(0));
  }
};

/// p = exp(scores − lse) and dp ← dS = scale · p ∘ (dp − inner), for one block of rows.
template <class A>
NYSTROM_INLINE void score_gradient(A* p, A* dp, const A* lse, const A* inner, std::int64_t rows,
                                   std::int64_t keys, A scale) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const bool empty = lse[r] == -std::numeric_limits<A>::infinity();
    const A total = lse[r], shift = inner[r];
    A* pr = p + r * block;
    A* dr = dp + r * block;
#pragma omp simd
    for (std::int64_t j = 0; j < keys; ++j) {
      pr[j] = empty ? A(0) : math::exp(pr[j] - total);
      dr[j] = scale * pr[j] * (dr[j] - shift);
    }
  }
}

/// The gradients of one head. With P = softmax(scale · q kᵀ): dv = Pᵀ dout; dP = dout vᵀ; dS =
/// scale · P ∘ (dP − rowsum(dout ∘ out)); dq = dS k; dk = dSᵀ q.
template <class A>
void backward_head(const CView& q, const CView& k, const CView& v, Keys<A> valid_keys, A scale,
                   const CView& out, const A* lse, const CView& dout, std::int64_t index,
                   const BackwardScratch<A>& s, const View& dq, const View& dk, const View& dv) {
  const std::int64_t queries = q.shape[2], keys = k.shape[2], d = q.shape[3], width = v.shape[3];
  const std::uint8_t* valid = valid_keys.valid;
  load_rows(q, head_of(q, index), 0, queries, s.q.get());
  load_rows(dout, head_of(dout, index), 0, queries, s.dout.get());
  for (std::int64_t r = 0; r < queries; ++r) {
    load_row(out, head_of(out, index).offset + r * head_of(out, index).row, s.dv.get(), width);
    A sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += s.dv[i] * s.dout[r * width + i];
    s.inner[r] = sum;
  }
  for (std::int64_t i = 0; i < queries * d; ++i) s.dq[i] = 0;
  for (std::int64_t j = 0; j < keys; j += block) {
    const std::int64_t all = smaller(block, keys - j), count = smaller(all, valid_keys.count - j);
    for (std::int64_t i = 0; i < all * d; ++i) s.dk[i] = 0;
    for (std::int64_t i = 0; i < all * width; ++i) s.dv[i] = 0;
    if (count > 0 && any_valid(valid, j, count)) {
      load_valid_rows(k, head_of(k, index), valid, j, count, s.k.get());
      load_valid_rows(v, head_of(v, index), valid, j, count, s.v.get());
      transpose_block(s.k.get(), count, d, d, s.kt.get(), block);
      transpose_block(s.v.get(), count, width, width, s.vt.get(), block);
      for (std::int64_t first = 0; first < queries; first += block) {
        const std::int64_t rows = smaller(block, queries - first);
        const A* qb = s.q.get() + first * d;
        const A* ob = s.dout.get() + first * width;
        const std::int64_t columns = whole_vectors<A>(count);
        tile_gemm<A>(rows, columns, d, valid_keys.scale, {qb, d, 1}, s.kt.get(), block, s.p.get(),
                     block, false);
        mask_scores(s.p.get(), rows, count, valid, j);
        tile_gemm<A>(rows, columns, width, A(1), {ob, width, 1}, s.vt.get(), block, s.dp.get(),
                     block, false);
        score_gradient(s.p.get(), s.dp.get(), lse + first, s.inner.get() + first, rows, count,
                       scale);
        tile_gemm<A>(count, width, rows, A(1), {s.p.get(), 1, block}, ob, width, s.dv.get(), width,
                     true);
        tile_gemm<A>(rows, d, count, A(1), {s.dp.get(), block, 1}, s.k.get(), d,
                     s.dq.get() + first * d, d, true);
        tile_gemm<A>(count, d, rows, A(1), {s.dp.get(), 1, block}, qb, d, s.dk.get(), d, true);
      }
    }
    store_rows(dk, head_of(dk, index), j, all, s.dk.get());
    store_rows(dv, head_of(dv, index), j, all, s.dv.get());
  }
  store_rows(dq, head_of(dq, index), 0, queries, s.dq.get());
}

}  // namespace

void attention(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale, View out,
               View log_sum_exp) {
  const std::int64_t heads = q.shape[1], queries = q.shape[2];
  const std::int64_t blocks = (queries + block - 1) / block;
  visit_accumulate(log_sum_exp.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    parallel_ranges(q.shape[0] * heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      const ForwardScratch<A> scratch(q.shape[3], v.shape[3]);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t index = i / blocks, first = i % blocks * block;
        const Keys<A> keys(key_mask, index / heads, k.shape[2], empty, scale);
        forward_block(q, k, v, keys, index, first, smaller(block, queries - first), scratch, out,
                      log_sum_exp);
      }
    });
  });
}

void attention_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                    CView out, CView log_sum_exp, CView dout, View dq, View dk, View dv) {
  const std::int64_t heads = q.shape[1], queries = q.shape[2];
  visit_accumulate(log_sum_exp.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    parallel_ranges(q.shape[0] * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const BackwardScratch<A> scratch(queries, q.shape[3], v.shape[3]);
      for (std::int64_t index = begin; index < end; ++index) {
        const Keys<A> keys(key_mask, index / heads, k.shape[2], empty, scale);
        backward_head(q, k, v, keys, static_cast<A>(scale), out,
                      log_sum_exp.as<A>() + index * queries, dout, index, scratch, dq, dk, dv);
      }
    });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
