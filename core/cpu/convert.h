// Loads and stores in the accumulate type, and scratch memory.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "core/dtype.h"
#include "core/view.h"

namespace nystrom {
namespace {

template <class T>
NYSTROM_INLINE accumulate_t<T> load(T x) {
  return static_cast<accumulate_t<T>>(x);
}

template <class To, class From>
NYSTROM_INLINE To convert(From x) {
  if constexpr (sizeof(To) == 2) {
    return To(static_cast<float>(x));
  } else if constexpr (sizeof(From) == 2) {
    return static_cast<To>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
NYSTROM_INLINE void convert_row(const From* __restrict source, To* __restrict target,
                                std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) target[i] = convert<To>(source[i]);
}

/// Uninitialised working memory of one thread, 64-byte aligned.
template <class T>
class Scratch {
 public:
  NYSTROM_INLINE explicit Scratch(std::int64_t count)
      : data_(static_cast<T*>(std::aligned_alloc(
            64, (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64 + 64))) {
    if (!data_)
      // It holds a few blocks, or one head of the longest sequence: less than the tensors. The
      // arena would have failed earlier, with a message.
      __builtin_trap();
  }
  NYSTROM_INLINE ~Scratch() { std::free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  NYSTROM_INLINE T* get() const { return data_; }
  NYSTROM_INLINE T& operator[](std::int64_t i) const { return data_[i]; }

 private:
  T* data_;
};

/// Reads `n` elements as A, from element `offset` of the view on. The view's type is any that
/// accumulates in A.
template <class A>
NYSTROM_INLINE void load_row(const CView& view, std::int64_t offset, A* target, std::int64_t n) {
  if (view.dtype == DType::bf16) {
    convert_row(view.as<bf16>() + offset, target, n);
  } else {
    convert_row(view.as<A>() + offset, target, n);
  }
}

template <class A>
NYSTROM_INLINE void store_row(const View& view, std::int64_t offset, const A* source,
                              std::int64_t n) {
  if (view.dtype == DType::bf16) {
    convert_row(source, view.as<bf16>() + offset, n);
  } else {
    convert_row(source, view.as<A>() + offset, n);
  }
}

}  // namespace
}  // namespace nystrom
