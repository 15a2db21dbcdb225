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
    case Activation::linear: break;
  }
  return Unary::relu;
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
                                     std::int64_t in, std::int64_t out, Bias bias) {
  std::vector<Parameter> weights;
  std::vector<Linear> layers;
  for (const std::string& name : names)
    weights.push_back((scope / name).parameter("weight", {out, in}));
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::optional<Parameter> own;
    if (bias == Bias::present)
      own = (scope / names[i]).parameter("bias", {out}, {Init::Kind::zeros}, false);
    layers.emplace_back(std::move(weights[i]), std::move(own));
  }
  return layers;
}

Var activate(Activation activation, const Var& x) {
  switch (activation) {
    case Activation::gelu: return gelu_erf(x);
    case Activation::gelu_new: return gelu_tanh(x);
    case Activation::relu: return relu(x);
    case Activation::tanh: return tanh(x);
    case Activation::linear: break;
  }
  return x;
}

Var feed_forward(const Linear& first, Activation activation, const Linear& second, const Var& x) {
  if (first.weight().is_int8() || second.weight().is_int8() || activation == Activation::linear)
    return second(activate(activation, first(x)));
  return feed_forward(function_of(activation), x, {first.weight(), first.bias()},
                      {second.weight(), second.bias()});
}

Var Linear::of_gated(Activation activation, const Var& x) const {
  if (!weight_.is_int8() && activation != Activation::linear)
    return gated_linear(function_of(activation), x, weight_, bias());
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
