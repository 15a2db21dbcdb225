#include "nn/layers.h"

#include <algorithm>

#include "core/int8.h"

namespace nystrom {
namespace {

/// An activation as an op, and as the part of an op that includes it.
struct Function {
  Activation activation;
  Var (*op)(const Var& x);
  Unary part;
};
constexpr Function functions[] = {{Activation::gelu, gelu_erf, Unary::gelu_erf},
                                  {Activation::gelu_new, gelu_tanh, Unary::gelu_tanh},
                                  {Activation::silu, silu, Unary::silu},
                                  {Activation::relu, relu, Unary::relu},
                                  {Activation::tanh, tanh, Unary::tanh}};

/// Null for Activation::linear.
const Function* function_of(Activation activation) {
  const auto* found = std::ranges::find(functions, activation, &Function::activation);
  return found == std::end(functions) ? nullptr : found;
}

}  // namespace

Var factor_of(const Parameter& weight, const Var& x) {
  return weight.is_int8() ? Var(round_to_uint8(x.value())) : x;
}

Var Linear::of_data(const Tensor& x) const {
  if (weight_.is_int8()) return (*this)(Var(x.cast(DType::f32)));
  return linear_of_data(x, weight_, bias());
}

std::vector<Linear> adjacent_linears(const Scope& scope, const std::vector<std::string>& names,
                                     std::int64_t in, std::int64_t out, bool bias) {
  std::vector<Parameter> weights;
  std::vector<Linear> layers;
  for (const std::string& name : names)
    weights.push_back((scope / name).parameter("weight", {out, in}));
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::optional<Parameter> own;
    if (bias) own = (scope / names[i]).parameter("bias", {out}, {Init::Kind::zeros}, false);
    layers.emplace_back(std::move(weights[i]), std::move(own));
  }
  return layers;
}

Var activate(Activation activation, const Var& x) {
  const Function* function = function_of(activation);
  return function ? function->op(x) : x;
}

Var feed_forward(const Linear& first, Activation activation, const Linear& second, const Var& x) {
  const Function* function = function_of(activation);
  if (first.weight().is_int8() || second.weight().is_int8() || !function)
    return second(activate(activation, first(x)));
  return feed_forward(function->part, x, {first.weight(), first.bias()},
                      {second.weight(), second.bias()});
}

Var Linear::of_gated(Activation activation, const Var& x) const {
  const Function* function = function_of(activation);
  if (!weight_.is_int8() && function) return gated_linear(function->part, x, weight_, bias());
  const std::int64_t half = x.dim(-1) / 2;
  const int last = x.rank() - 1;
  return (*this)(activate(activation, slice(x, last, 0, half)) * slice(x, last, half, 2 * half));
}

Var Linear::bias_or_zeros() const {
  if (bias_) return *bias_;
  const Tensor weight = weight_.var().value();
  return Tensor::zeros({weight.dim(0)}, weight.dtype(), weight.device());
}

}  // namespace nystrom
