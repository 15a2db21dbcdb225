// Tensors: a shared storage seen through offset, shape, strides and type.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/allocator.h"
#include "core/shape.h"

namespace nystrom {

/// A handle: copies share the storage. Shape operations return views and never copy; kernels::copy
/// makes things contiguous.
class Tensor {
 public:
  Tensor() = default;

  /// Uninitialised memory.
  static Tensor empty(const Shape& shape, DType dtype, Device device = cpu_device);
  static Tensor zeros(const Shape& shape, DType dtype, Device device = cpu_device);
  static Tensor full(const Shape& shape, double value, DType dtype, Device device = cpu_device);
  /// A copy of `values` on the CPU in the type T; throws when the count does not fit the shape.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int axis) const { return shape_[axis]; }
  std::int64_t stride(int axis) const { return strides_[shape_.normalise(axis)]; }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return shape_.numel(); }
  std::int64_t bytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool is_contiguous() const;
  /// Whether no other tensor sees this storage, so that it may be written in place.
  bool is_unique() const { return storage_.use_count() == 1; }

  /// Elements on the CPU; throws when T is not the tensor's type or it lives elsewhere.
  template <class T>
  T* data() {
    return static_cast<T*>(typed_data(dtype_of<T>()));
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(typed_data(dtype_of<T>()));
  }
  /// All elements of a contiguous CPU tensor converted to double, for tests, files and printing.
  std::vector<double> to_doubles() const;
  /// The value of a tensor with one element.
  double item() const;

  /// Views. reshape needs contiguity; expand repeats axes of size 1 with stride 0.
  Tensor reshape(const Shape& shape) const;
  Tensor transpose(int axis_a, int axis_b) const;
  Tensor slice(int axis, std::int64_t begin, std::int64_t end) const;
  Tensor expand(const Shape& shape) const;

  /// A copy on `device`, or this tensor when it lives there already (or nowhere: undefined ones
  /// stay so).
  Tensor to(Device device) const;
  /// This tensor, or a contiguous copy.
  Tensor contiguous() const;
  /// This tensor, or a converted contiguous copy; floating types only.
  Tensor cast(DType dtype) const;
  /// A contiguous copy.
  Tensor clone() const;

  operator CView() const;
  operator View();

 private:
  void* typed_data(DType dtype) const;
  char* address() const { return static_cast<char*>(storage_.get()) + offset_ * size_of(dtype_); }

  std::shared_ptr<void> storage_;
  std::int64_t offset_ = 0;  // elements
  Shape shape_;
  std::array<std::int64_t, max_rank> strides_{};  // elements
  DType dtype_ = DType::f32;
  Device device_;
};

/// Uninitialised, with the shape, type and device of x; or another type.
Tensor empty_like(const Tensor& x);
Tensor empty_like(const Tensor& x, DType dtype);
Tensor zeros_like(const Tensor& x);

}  // namespace nystrom
