// Arguments of kernels: pointers with shape and strides. They are plain data and own nothing.
#pragma once

#include <cstdint>

#include "core/device.h"
#include "core/dtype.h"

namespace nystrom {

inline constexpr int max_rank = 8;

/// The shape and the strides, in elements, of View and CView.
struct ViewBase {
  DType dtype = DType::f32;
  Device device;
  int rank = 0;
  std::int64_t shape[max_rank] = {};
  std::int64_t stride[max_rank] = {};

  /// The number of elements.
  NYSTROM_INLINE std::int64_t numel() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  /// The size of axis i. Negative axes count from the end.
  NYSTROM_INLINE std::int64_t dim(int i) const { return shape[i < 0 ? i + rank : i]; }
  /// The stride of axis i, in elements. Negative axes count from the end.
  NYSTROM_INLINE std::int64_t step(int i) const { return stride[i < 0 ? i + rank : i]; }
  /// Whether each element lies behind the one before. Strides of axes of size 1 do not count.
  NYSTROM_INLINE bool is_contiguous() const {
    std::int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (shape[i] != 1 && stride[i] != step) return numel() == 0;
      step *= shape[i];
    }
    return true;
  }
  /// The number of rows: all axes but the last, merged.
  NYSTROM_INLINE std::int64_t rows() const {
    return rank == 0 || dim(-1) == 0 ? 0 : numel() / dim(-1);
  }
};

/// A read-only view. `data == nullptr` stands for an absent optional argument.
struct CView : ViewBase {
  const void* data = nullptr;

  /// Whether the argument is present.
  NYSTROM_INLINE explicit operator bool() const { return data != nullptr; }
  template <class T>
  NYSTROM_INLINE const T* as() const {
    return static_cast<const T*>(data);
  }
};

/// A writable view.
struct View : ViewBase {
  void* data = nullptr;

  /// Whether the argument is present.
  NYSTROM_INLINE explicit operator bool() const { return data != nullptr; }
  template <class T>
  NYSTROM_INLINE T* as() const {
    return static_cast<T*>(data);
  }
  NYSTROM_INLINE operator CView() const {
    CView view;
    static_cast<ViewBase&>(view) = *this;
    view.data = data;
    return view;
  }
};

}  // namespace nystrom
