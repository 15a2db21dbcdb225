// Tensors: shared storage with an offset, shape, strides and a type.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/allocator.h"
#include "core/shape.h"

namespace nystrom {

/// Whose the memory of a tensor is: nystrom's, or others', who may forbid writing.
enum class Memory : std::uint8_t { own, borrowed, read_only };

/// A handle to a tensor. Copies share the storage. Shape operations return views and never copy;
/// contiguous() makes a contiguous copy.
class Tensor {
 public:
  Tensor() = default;

  /// A tensor with uninitialised values.
  static Tensor empty(const Shape& shape, DType dtype, Device device = cpu_device);
  /// A tensor of zeros.
  static Tensor zeros(const Shape& shape, DType dtype, Device device = cpu_device);
  /// A tensor whose elements all have one value.
  static Tensor full(const Shape& shape, double value, DType dtype, Device device = cpu_device);
  /// A CPU copy of `values` with element type T. Throws when their number does not fit the shape.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  /// A CPU tensor on memory that others made: `data` owns the first element, which lies at a
  /// multiple of its size. `strides` are in elements, one for each axis, and not negative.
  static Tensor borrow(std::shared_ptr<void> data, const Shape& shape,
                       std::span<const std::int64_t> strides, DType dtype,
                       Memory memory = Memory::borrowed);

  /// Whether the handle refers to a tensor.
  bool defined() const { return storage_ != nullptr; }
  /// The sizes of the axes.
  const Shape& shape() const { return shape_; }
  /// The size of an axis. Negative axes count from the end.
  std::int64_t dim(int axis) const { return shape_[axis]; }
  /// The stride of an axis, in elements.
  std::int64_t stride(int axis) const { return strides_[shape_.normalise(axis)]; }
  /// The number of axes.
  int rank() const { return shape_.rank(); }
  /// The number of elements.
  std::int64_t numel() const { return shape_.numel(); }
  /// The bytes of the elements.
  std::int64_t bytes() const { return numel() * size_of(dtype_); }
  /// The element type.
  DType dtype() const { return dtype_; }
  /// The device that holds the elements.
  Device device() const { return device_; }
  /// Whether the elements lie in memory in order, without gaps.
  bool is_contiguous() const;
  /// Whether no other tensor uses this storage, and nobody lent it. If so, it may be overwritten.
  bool is_unique() const { return memory_ == Memory::own && storage_.use_count() == 1; }
  /// Whose the memory is.
  Memory memory() const { return memory_; }

  /// The elements of a CPU tensor of type T. Throws for other types and devices.
  template <class T>
  T* data() {
    return static_cast<T*>(typed_data(dtype_of<T>()));
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(typed_data(dtype_of<T>()));
  }
  /// All elements in order as doubles, from any device.
  std::vector<double> to_doubles() const;
  /// The value of a tensor with one element.
  double item() const;

  /// A view with another shape. The tensor must be contiguous.
  Tensor reshape(const Shape& shape) const;
  /// A view with two axes exchanged.
  Tensor transpose(int axis_a, int axis_b) const;
  /// A view of elements begin … end − 1 of an axis.
  Tensor slice(int axis, std::int64_t begin, std::int64_t end) const;
  /// A view that repeats axes of size 1, with stride 0.
  Tensor expand(const Shape& shape) const;

  /// A view of this tensor and of `next`, one after the other along the first axis; undefined
  /// unless both are contiguous, have equal other axes, and lie in one storage without a gap.
  Tensor joined_with(const Tensor& next) const;

  /// A copy on `device`, or this tensor if it is there already. An undefined tensor stays
  /// undefined.
  Tensor to(Device device) const;
  /// This tensor if it is contiguous, else a contiguous copy.
  Tensor contiguous() const;
  /// This tensor if it has the type, else a converted contiguous copy. Floating types only.
  Tensor cast(DType dtype) const;
  /// A contiguous copy.
  Tensor clone() const;

  /// The tensor as an argument of kernels. It must outlive the view.
  operator CView() const;
  operator View();

 private:
  void* typed_data(DType dtype) const;
  char* address() const { return static_cast<char*>(storage_.get()) + offset_ * size_of(dtype_); }

  std::shared_ptr<void> storage_;
  std::int64_t offset_ = 0;  // in elements
  Shape shape_;
  std::array<std::int64_t, max_rank> strides_{};  // in elements
  DType dtype_ = DType::f32;
  Device device_;
  Memory memory_ = Memory::own;
};

/// A tensor and its name in a file.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// The identity matrix [n, n].
Tensor identity(std::int64_t n, DType dtype, Device device);
/// An uninitialised tensor with the shape, type and device of x.
Tensor empty_like(const Tensor& x);
/// The same with another type.
Tensor empty_like(const Tensor& x, DType dtype);
/// A tensor of zeros with the shape, type and device of x.
Tensor zeros_like(const Tensor& x);

/// The memory of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of(Tensor& tensor);
std::span<const std::byte> bytes_of(const Tensor& tensor);

/// The sum of the squares of a contiguous tensor, in f64.
double sum_of_squares(const Tensor& x);

/// The index of the first number that is NaN or infinite, −1 without one. The tensor is contiguous
/// and on the CPU.
std::int64_t first_non_finite(const Tensor& tensor);

}  // namespace nystrom
