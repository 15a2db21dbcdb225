#include "nn/layers.h"

#include "core/int8.h"

namespace nystrom {
namespace {

Unary function_of(Activation activation) {
  switch (activation) {
    case Activation::gelu: return Unary::gelu_erf;
    case Activation::gelu_new: return Unary::gelu_tanh;
    case Activation::relu: return Unary::relu;
    case Activation::tanh: return Unary::tanh;
  }
  return Unary::relu;
}

}  // namespace

Var factor_of(const Parameter& weight, const Var& x) {
  return weight.is_int8() ? Var(round_to_uint8(x.value())) : x;
}

Var activate(Activation activation, const Var& x) {
  switch (activation) {
    case Activation::gelu: return gelu_erf(x);
    case Activation::gelu_new: return gelu_tanh(x);
    case Activation::relu: return relu(x);
    case Activation::tanh: return tanh(x);
  }
  return x;
}

Var Linear::of_activated(Activation activation, const Var& x) const {
  if (weight_.is_int8()) return (*this)(activate(activation, x));
  return activated_linear(function_of(activation), x, weight_, bias_);
}

}  // namespace nystrom
