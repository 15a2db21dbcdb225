// The common part of the attention kernels: operands, unmasked keys, and samples without any.
#pragma once

#include "core/cuda/attention/attention_forms.h"
#include "core/cuda/launch.cuh"
#include "core/cuda/spans.cuh"

namespace nystrom::cuda {

/// One head of one span.
template <class A, bool Constant>
struct HeadRows {
  Mixed<A, Constant> numbers;
  std::int64_t begin;
  int row, rows, width;
  NYSTROM_DEVICE std::int64_t at(int r) const { return begin + std::int64_t{r} * row; }
};

/// A ragged [r, h, width] or dense [p, h, rows, width] view with unit columns.
template <class A, bool Constant>
struct Heads {
  Mixed<A, Constant> numbers;
  std::int64_t first, head;  // strides
  int row, width;            // stride, and the columns
  NYSTROM_DEVICE HeadRows<A, Constant> of(Span span, std::int64_t h) const {
    return {numbers, span.first * first + h * head, row, span.rows, width};
  }
};

template <class A, class V>
Heads<A, std::is_same_v<V, CView>> heads_of(const V& view) {
  if (view.rank == 0) return {};  // an absent argument
  return {mixed<A>(view), view.stride[0], view.stride[1],
          static_cast<int>(view.stride[view.rank == 3 ? 0 : 2]), static_cast<int>(view.dim(-1))};
}

/// One number for each query: contiguous [h, r] or [p, h, n].
template <class T>
struct PerQuery {
  T* data;
  std::int64_t first, head;  // strides
  NYSTROM_DEVICE T* of(Span span, std::int64_t h) const {
    return data + span.first * first + h * head;
  }
};

template <class T, class V>
PerQuery<T> per_query(const V& view) {
  const bool ragged = view.rank == 2;
  return {view.template as<std::remove_const_t<T>>(), ragged ? 1 : view.shape[1] * view.shape[2],
          view.dim(-1)};
}

/// The head and the spans that a block or a warp works on.
struct Place {
  Span queries, keys;
  std::int64_t sample, head;
};

template <class A>
struct AttentionProblem {
  Heads<A, true> q, k, v;
  DeviceSpans queries, keys;
  const std::uint8_t* key_mask;
  const std::uint8_t* any_key;  ///< for each sample; null: every sample has one, or none needs one
  std::int64_t heads;
  A scale;
  std::int64_t reach;
  /// All heads of all spans.
  NYSTROM_DEVICE std::int64_t all_heads() const { return queries.count * heads; }
  NYSTROM_DEVICE Place place(std::int64_t index) const {
    const std::int64_t sample = index / heads;
    return {queries[sample], keys[sample], sample, index % heads};
  }
  /// Where part `split` of a loop leaves its result for `own` rows: parts lie densely, as further
  /// samples.
  NYSTROM_DEVICE Span part(Span own, const Place& at, std::int64_t split,
                           std::int64_t splits) const {
    return splits == 1 ? own : Span{split * queries.count + at.sample, own.rows};
  }
};

/// Whether some query does not reach some key.
template <class A>
bool is_local(const AttentionProblem<A>& p) {
  return p.reach < p.keys.longest;
}

/// The unmasked keys of a span, and the factor of its scores.
template <class A>
struct Keys {
  const std::uint8_t* valid;
  A scale;
  int count;
  NYSTROM_DEVICE Keys(const AttentionProblem<A>& p, const Place& at)
      : valid(p.key_mask ? p.key_mask + at.sample * at.keys.rows : nullptr),
        scale(p.scale),
        count(at.keys.rows) {
    if (!p.any_key || p.any_key[at.sample]) return;
    valid = nullptr;  // equal scores: a uniform softmax over all keys
    scale = 0;
  }
  NYSTROM_DEVICE bool operator()(int j) const { return j < count && (!valid || valid[j]); }
};

/// The rows within reach of row `index`, of `count` rows.
struct Reach {
  int begin, end;
  NYSTROM_DEVICE Reach(int index, int count, std::int64_t reach)
      : begin(index > reach ? static_cast<int>(index - reach) : 0),
        end(index + reach + 1 < count ? static_cast<int>(index + reach + 1) : count) {}
};

/// A depthwise convolution that a kernel computes beside attention; with 0 taps there is none.
struct Convolution {
  Heads<float, true> x;
  const void* w;  ///< [heads, taps], in the 16-bit type
  int taps;
};

inline Convolution convolution_of(const CView& x, const CView& w) {
  if (!w) return {};
  return {heads_of<float>(x), w.data, static_cast<int>(w.shape[1])};
}

/// Whether each sample has an unmasked key, if that matters.
class AnyKey {
 public:
  explicit AnyKey(const AttentionOperands& o);
  const std::uint8_t* get() const { return needed_ ? any_.get() : nullptr; }

 private:
  bool needed_;
  Workspace<std::uint8_t> any_;
};

template <class A>
AttentionProblem<A> problem_of(const AttentionOperands& o, const AnyKey& any) {
  return {heads_of<A>(o.q),
          heads_of<A>(o.k),
          heads_of<A>(o.v),
          device_spans(o.queries, o.q),
          device_spans(o.keys, o.k),
          o.key_mask.as<std::uint8_t>(),
          any.get(),
          o.q.shape[1],
          static_cast<A>(o.scoring.scale),
          o.scoring.reach};
}

/// Memory [part · sample, heads, rows, width] for the results of parts of a loop.
inline Heads<float, false> parts_in(float* memory, std::int64_t heads, std::int64_t rows,
                                    int width) {
  return {{memory, DType::f32}, heads * rows * width, rows * width, width, width};
}

}  // namespace nystrom::cuda
