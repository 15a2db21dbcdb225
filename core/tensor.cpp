#include "core/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/kernels.h"

namespace nystrom {
namespace {

std::array<std::int64_t, max_rank> contiguous_strides(const Shape& shape) {
  std::array<std::int64_t, max_rank> strides{};
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor result;
  constexpr std::int64_t most = std::int64_t{1} << 58;  // and so the rounded bytes fit into 64 bits
  require(shape.numel() < most, "a tensor of shape {} does not fit into memory", shape);
  result.storage_ = Arena::of(device).allocate(shape.numel() * size_of(dtype));
  result.shape_ = shape;
  result.strides_ = contiguous_strides(shape);
  result.dtype_ = dtype;
  result.device_ = device;
  return result;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor result = empty(shape, dtype, device);
  kernels::fill(result, value);
  return result;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0, dtype, device);
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  require(static_cast<std::int64_t>(values.size()) == shape.numel(),
          "{} values do not fill shape {}", values.size(), shape);
  Tensor result = empty(shape, dtype_of<T>());
  if (!values.empty()) std::memcpy(result.address(), values.data(), values.size_bytes());
  return result;
}
template Tensor Tensor::from(std::span<const float>, const Shape&);
template Tensor Tensor::from(std::span<const double>, const Shape&);
template Tensor Tensor::from(std::span<const bf16>, const Shape&);
template Tensor Tensor::from(std::span<const f16>, const Shape&);
template Tensor Tensor::from(std::span<const std::int32_t>, const Shape&);
template Tensor Tensor::from(std::span<const std::int64_t>, const Shape&);
template Tensor Tensor::from(std::span<const std::uint8_t>, const Shape&);

Tensor Tensor::borrow(std::shared_ptr<void> data, const Shape& shape,
                      std::span<const std::int64_t> strides, DType dtype, Memory memory) {
  require(static_cast<int>(strides.size()) == shape.rank(), "{} strides for shape {}",
          strides.size(), shape);
  require(std::ranges::all_of(strides, [](std::int64_t stride) { return stride >= 0; }),
          "a tensor has no negative strides");
  require(reinterpret_cast<std::uintptr_t>(data.get()) % size_of(dtype) == 0,
          "the elements of a tensor of {} begin at a multiple of their size", dtype);
  Tensor result;
  result.storage_ = std::move(data);
  result.shape_ = shape;
  std::ranges::copy(strides, result.strides_.begin());
  result.dtype_ = dtype;
  result.memory_ = memory;
  return result;
}

bool Tensor::is_contiguous() const {
  const auto expected = contiguous_strides(shape_);
  for (int i = 0; i < rank(); ++i)
    if (shape_[i] != 1 && strides_[i] != expected[i]) return numel() == 0;
  return true;
}

void* Tensor::typed_data(DType dtype) const {
  require(defined(), "an undefined tensor has no data");
  require(dtype == dtype_, "tensor data requested as {}, but its type is {}", dtype, dtype_);
  require(device_.is_cpu(), "tensor data requested on the CPU, but it lives on {}", device_.name());
  return address();
}

std::vector<double> Tensor::to_doubles() const {
  const Tensor host = to(cpu_device).contiguous();
  std::vector<double> values(static_cast<std::size_t>(numel()));
  const auto convert = [&]<class T>(TypeTag<T>) {
    const T* data = host.data<T>();
    std::transform(data, data + values.size(), values.begin(),
                   [](T x) { return static_cast<double>(static_cast<accumulate_t<T>>(x)); });
  };
  switch (dtype_) {
    case DType::i32: convert(TypeTag<std::int32_t>{}); break;
    case DType::i64: convert(TypeTag<std::int64_t>{}); break;
    case DType::u8: convert(TypeTag<std::uint8_t>{}); break;
    default: visit_any_float(dtype_, convert);
  }
  return values;
}

double Tensor::item() const {
  require(numel() == 1, "item() needs one element, got shape {}", shape_);
  return to_doubles()[0];
}

Tensor Tensor::reshape(const Shape& shape) const {
  require(is_contiguous(), "reshape needs a contiguous tensor, got a strided one of shape {}",
          shape_);
  require(shape.numel() == numel(), "cannot reshape {} to {}", shape_, shape);
  Tensor result = *this;
  result.shape_ = shape;
  result.strides_ = contiguous_strides(shape);
  return result;
}

Tensor Tensor::transpose(int axis_a, int axis_b) const {
  const int a = shape_.normalise(axis_a);
  const int b = shape_.normalise(axis_b);
  Tensor result = *this;
  std::swap(result.shape_[a], result.shape_[b]);
  std::swap(result.strides_[a], result.strides_[b]);
  return result;
}

Tensor Tensor::slice(int axis, std::int64_t begin, std::int64_t end) const {
  const int a = shape_.normalise(axis);
  require(begin >= 0 && begin <= end && end <= shape_[a],
          "slice {}…{} of axis {} lies outside shape {}", begin, end, axis, shape_);
  Tensor result = *this;
  result.shape_[a] = end - begin;
  result.offset_ += begin * strides_[a];
  return result;
}

Tensor Tensor::joined_with(const Tensor& next) const {
  const bool adjacent = storage_ == next.storage_ && dtype_ == next.dtype_ && is_contiguous() &&
                        next.is_contiguous() && offset_ + numel() == next.offset_;
  if (!adjacent || rank() == 0 || shape_.without(0) != next.shape_.without(0)) return {};
  Tensor result = *this;
  result.shape_[0] += next.shape_[0];
  return result;
}

Tensor Tensor::expand(const Shape& shape) const {
  require(broadcast(shape_, shape) == shape, "cannot expand {} to {}", shape_, shape);
  Tensor result = *this;
  result.shape_ = shape;
  for (int i = 1; i <= shape.rank(); ++i) {
    const bool repeated = i > rank() || (shape_[-i] == 1 && shape[-i] != 1);
    result.strides_[shape.rank() - i] = repeated ? 0 : strides_[rank() - i];
  }
  return result;
}

Tensor Tensor::to(Device device) const {
  if (device == device_ || !defined()) return *this;
  const Tensor source = contiguous();
  Tensor result = empty(shape_, dtype_, device);
  if (device.is_planned()) return result;
  if (device_.is_planned()) {
    std::memset(result.address(), 0, static_cast<std::size_t>(bytes()));
  } else if (device.is_cpu()) {
    cuda::copy_to_host(device_.index, result.address(), source.address(), bytes());
  } else {
    require(device_.is_cpu(), "copies between GPUs go through the CPU");
    cuda::copy_to_device(device.index, result.address(), source.address(), bytes());
  }
  return result;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  require(is_float(dtype) && is_float(dtype_), "cast: only floating types convert; got {} to {}",
          dtype_, dtype);
  Tensor result = empty(shape_, dtype, device_);
  kernels::copy(*this, result);
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty(shape_, dtype_, device_);
  kernels::copy(*this, result);
  return result;
}

Tensor::operator CView() const { return const_cast<Tensor*>(this)->operator View(); }

Tensor::operator View() {
  View view;
  if (!defined()) return view;
  view.dtype = dtype_;
  view.device = device_;
  view.rank = rank();
  std::copy(shape_.begin(), shape_.end(), view.shape);
  std::copy(strides_.begin(), strides_.end(), view.stride);
  view.data = address();
  return view;
}

Tensor identity(std::int64_t n, DType dtype, Device device) {
  std::vector<double> numbers(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) numbers[static_cast<std::size_t>(i * (n + 1))] = 1;
  return Tensor::from(numbers, {n, n}).cast(dtype).to(device);
}
Tensor empty_like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }
Tensor empty_like(const Tensor& x, DType dtype) {
  return Tensor::empty(x.shape(), dtype, x.device());
}
Tensor zeros_like(const Tensor& x) { return Tensor::zeros(x.shape(), x.dtype(), x.device()); }

std::span<std::byte> bytes_of(Tensor& tensor) {
  require(tensor.is_contiguous() && tensor.device().is_cpu(),
          "bytes_of: not contiguous on the CPU");
  const View view = tensor;
  return {static_cast<std::byte*>(view.data), static_cast<std::size_t>(tensor.bytes())};
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  Tensor same = tensor;
  return bytes_of(same);
}

double sum_of_squares(const Tensor& x) {
  Tensor sum = Tensor::empty({1}, DType::f64, x.device());
  kernels::sum_of_squares(x, sum);
  return sum.item();
}

std::int64_t first_non_finite(const Tensor& tensor) {
  std::int64_t found = -1;
  visit_any_float(tensor.dtype(), [&]<class T>(TypeTag<T>) {
    const std::span numbers(tensor.data<T>(), static_cast<std::size_t>(tensor.numel()));
    const auto first = std::ranges::find_if_not(
        numbers, [](T x) { return std::isfinite(static_cast<accumulate_t<T>>(x)); });
    if (first != numbers.end()) found = first - numbers.begin();
  });
  return found;
}

}  // namespace nystrom
