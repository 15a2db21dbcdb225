// The common part of the attention kernels: operands, unmasked keys, and samples without any.
#pragma once

#include "core/cuda/launch.cuh"
#include "core/kernels.h"

namespace nystrom::cuda {

/// A [b, h, rows, width] view with unit columns.
template <class A, bool Constant>
struct Heads {
  Mixed<A, Constant> numbers;
  std::int64_t sample, head, row, rows, width;
  NYSTROM_DEVICE std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t r) const {
    return b * sample + h * head + r * row;
  }
};

template <class A, class V>
auto heads_of(const V& view) {
  const auto numbers = mixed<A>(view);
  return Heads<A, std::is_same_v<V, CView>>{numbers,        view.stride[0], view.stride[1],
                                            view.stride[2], view.shape[2],  view.shape[3]};
}

template <class A>
struct AttentionProblem {
  Heads<A, true> q, k, v;
  const std::uint8_t* key_mask;
  const std::uint8_t* any_key;  ///< for each sample; null: every sample has one, or none needs one
  std::int64_t batch, heads;
  A scale;
};

/// The unmasked keys of a sample, and the factor of its scores.
template <class A>
struct Keys {
  const std::uint8_t* valid;
  A scale;
  std::int64_t count;
  NYSTROM_DEVICE Keys(const AttentionProblem<A>& p, std::int64_t b)
      : valid(p.key_mask ? p.key_mask + b * p.k.rows : nullptr), scale(p.scale), count(p.k.rows) {
    if (!p.any_key || p.any_key[b]) return;
    valid = nullptr;  // equal scores: a uniform softmax over all keys
    scale = 0;
  }
  NYSTROM_DEVICE bool operator()(std::int64_t j) const { return j < count && (!valid || valid[j]); }
};

/// A depthwise convolution that a kernel computes beside attention; with 0 taps there is none.
struct Convolution {
  Heads<float, true> x;
  const void* w;             ///< [heads, taps], in the 16-bit type
  const std::uint8_t* mask;  ///< [batch, rows], or null
  int taps;
  NYSTROM_DEVICE bool inside(std::int64_t t) const { return t >= 0 && t < x.rows; }
  /// Whether row t is a row of x that counts.
  NYSTROM_DEVICE bool sees(std::int64_t b, std::int64_t t) const {
    return taps > 0 && inside(t) && (!mask || mask[b * x.rows + t]);
  }
};

inline Convolution convolution_of(const CView& x, const CView& w, const CView& mask) {
  return {heads_of<float>(x), w.data, mask.as<std::uint8_t>(),
          w ? static_cast<int>(w.shape[1]) : 0};
}

/// Whether each sample has an unmasked key, if that matters.
class AnyKey {
 public:
  AnyKey(const ViewBase& like, const CView& mask, EmptyRows empty);
  const std::uint8_t* get() const { return needed_ ? any_.get() : nullptr; }

 private:
  bool needed_;
  Workspace<std::uint8_t> any_;
};

template <class A>
AttentionProblem<A> problem_of(const CView& q, const CView& k, const CView& v,
                               const CView& key_mask, const AnyKey& any, double scale) {
  return {heads_of<A>(q), heads_of<A>(k), heads_of<A>(v), key_mask.as<std::uint8_t>(),
          any.get(),      q.shape[0],     q.shape[1],     static_cast<A>(scale)};
}

}  // namespace nystrom::cuda
