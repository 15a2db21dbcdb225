// Var: a tensor that may have a gradient.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "core/tensor.h"

namespace nystrom {

/// The gradient of one Var. The Var and the tape share it, so that values can be freed before their
/// gradients are computed.
struct GradSlot {
  /// Undefined until a gradient arrives. A leaf's tensor is given, and gradients are added to it.
  Tensor grad;
  /// The gradient's type for intermediates: that of the value, unless the op that made it reads its
  /// gradient in another one.
  DType dtype;
  bool is_leaf = false;
  /// Whether the op that made the value adds up the gradient's rows, as for a bias.
  bool wants_row_sum = false;
  /// Whether the step that made the value is on no tape any more.
  bool passed = false;
  /// The thread whose tape recorded the value; none of a leaf.
  std::thread::id thread = {};
  /// The gradient summed over its rows, in the accumulate type, if the op that made the gradient
  /// had the sum at hand; undefined otherwise.
  Tensor row_sum = {};
};

/// A value that is computed again when a backward function reads it, so that it need not be kept.
struct Recomputation {
  std::function<Tensor()> compute;
  /// From the first reading until the op that made the value runs backward; undefined otherwise.
  Tensor value = {};

  /// The value.
  const Tensor& get() {
    if (!value.defined()) value = compute();
    return value;
  }
};

/// A recorded value or a constant. Copies are cheap and refer to the same Var.
class Var {
 public:
  Var() = default;
  /// A constant, which has no gradient.
  Var(Tensor value)
      : value_(std::move(value)) {}  // NOLINT: tensors are constants wherever Vars are expected
  Var(Tensor value, std::shared_ptr<GradSlot> slot)
      : value_(std::move(value)), slot_(std::move(slot)) {}

  /// A leaf (a parameter). The backward pass adds to `grad`, which may have the accumulate type.
  static Var leaf(Tensor value, Tensor grad);
  /// A leaf with its own gradient, initially zero.
  static Var leaf(Tensor value);

  /// The value.
  const Tensor& value() const { return value_; }
  /// The value's shape.
  const Shape& shape() const { return value_.shape(); }
  /// The size of an axis. Negative axes count from the end.
  std::int64_t dim(int axis) const { return value_.dim(axis); }
  /// The number of axes.
  int rank() const { return value_.rank(); }
  /// The value's type.
  DType dtype() const { return value_.dtype(); }
  /// Whether there is a value.
  bool defined() const { return value_.defined(); }

  /// Whether gradients are collected.
  bool requires_grad() const { return slot_ != nullptr; }
  /// The gradient so far. Throws for a constant.
  const Tensor& grad() const;
  /// The gradient that the tape shares; null for a constant.
  const std::shared_ptr<GradSlot>& slot() const { return slot_; }
  /// The same value as a constant.
  Var detach() const { return Var(value_); }
  /// This value, which backward functions may compute again.
  Var recomputed_by(std::shared_ptr<Recomputation> recomputation) const {
    Var result = *this;
    result.recomputation_ = std::move(recomputation);
    return result;
  }
  /// Null unless the value may be computed again.
  const std::shared_ptr<Recomputation>& recomputation() const { return recomputation_; }

 private:
  Tensor value_;
  std::shared_ptr<GradSlot> slot_;
  std::shared_ptr<Recomputation> recomputation_;
};

}  // namespace nystrom
