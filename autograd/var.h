// Var: a tensor that gradients may flow to.
#pragma once

#include <memory>

#include "core/tensor.h"

namespace nystrom {

/// Where the gradient of one Var is collected. Held by the Var and by the tape, so that values can
/// go before their gradients come.
struct GradSlot {
  Tensor grad;  ///< undefined until something arrives; a leaf's is given and only added to
  DType dtype;  ///< type of the gradients of an intermediate: that of its value
  bool is_leaf = false;
};

/// A value on the tape, or a constant. Copies are cheap and mean the same Var.
class Var {
 public:
  Var() = default;
  /// A constant: no gradient flows to it.
  Var(Tensor value)
      : value_(std::move(value)) {}  // NOLINT: tensors are constants wherever Vars are expected
  Var(Tensor value, std::shared_ptr<GradSlot> slot)
      : value_(std::move(value)), slot_(std::move(slot)) {}

  /// A leaf (a parameter): backward adds to `grad`, which may be of the accumulate type.
  static Var leaf(Tensor value, Tensor grad);
  /// A leaf with a zeroed gradient of its own.
  static Var leaf(Tensor value);

  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  std::int64_t dim(int axis) const { return value_.dim(axis); }
  int rank() const { return value_.rank(); }
  DType dtype() const { return value_.dtype(); }
  bool defined() const { return value_.defined(); }

  bool requires_grad() const { return slot_ != nullptr; }
  /// The gradient collected so far; throws for a constant.
  const Tensor& grad() const;
  const std::shared_ptr<GradSlot>& slot() const { return slot_; }
  /// The same value as a constant.
  Var detach() const { return Var(value_); }

 private:
  Tensor value_;
  std::shared_ptr<GradSlot> slot_;
};

}  // namespace nystrom
