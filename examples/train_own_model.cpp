// A model of one's own on nystrom's tensors, tape and optimizer: a network with one hidden layer learns sin 3x from points.
#include <cmath>
#include <cstdio>
#include <vector>

#include "autograd/ops.h"

using namespace nystrom;

/// All parameters lie in one slab and their gradients in another, so that one call updates everything.
class Parameters {
 public:
  explicit Parameters(std::int64_t count)
      : values_(Tensor::zeros({count}, DType::f32)),
        gradients_(zeros_like(values_)),
        moment1_(zeros_like(values_)),
        moment2_(zeros_like(values_)) {}

  /// The next part of the slab as a leaf of the given shape, uniform in ±range.
  Var add(const Shape& shape, double range) {
    const std::int64_t begin = used_;
    used_ += shape.numel();
    for (std::int64_t i = begin; i < used_; ++i) {
      const auto words = philox(philox_key(1, 0), {{static_cast<std::uint32_t>(i), 0, 0, 0}});
      values_.data<float>()[i] = static_cast<float>(range * (2 * uniform_open(words.word[0]) - 1));
    }
    return Var::leaf(values_.slice(0, begin, used_).reshape(shape), gradients_.slice(0, begin, used_).reshape(shape));
  }

  void step(double learning_rate, int t) {
    const auto end = Tensor::from(std::vector<std::int64_t>{used_}, {1});
    const auto decay = Tensor::from(std::vector<double>{1.0}, {1});
    const double beta1 = 0.9, beta2 = 0.999;
    kernels::adamw(values_, gradients_, moment1_, moment2_, View{}, end, decay,
                   {learning_rate, beta1, beta2, 1e-8, 1e-4, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t), 1.0});
    kernels::fill(gradients_, 0);
  }

 private:
  Tensor values_, gradients_, moment1_, moment2_;
  std::int64_t used_ = 0;
};

int main() {
  constexpr std::int64_t points = 256, hidden = 32, steps = 400;
  Tensor x = Tensor::empty({points, 1}, DType::f32), y = Tensor::empty({points, 1}, DType::f32);
  for (std::int64_t i = 0; i < points; ++i) {
    const double at = 2.0 * static_cast<double>(i) / (points - 1) - 1;
    x.data<float>()[i] = static_cast<float>(at);
    y.data<float>()[i] = static_cast<float>(std::sin(3 * at));
  }

  Parameters parameters(3 * hidden + 1);
  const Var weight1 = parameters.add({hidden, 1}, 3), bias1 = parameters.add({hidden}, 3);
  const Var weight2 = parameters.add({1, hidden}, 0.2), bias2 = parameters.add({1}, 0);

  double loss_value = 0;
  for (int t = 1; t <= steps; ++t) {
    Tape tape;
    const Var loss = mean_squared_error(linear(gelu_tanh(linear(x, weight1, bias1)), weight2, bias2), y);
    tape.backward(loss);
    parameters.step(0.02, t);
    loss_value = loss.value().item();
    if (t == 1 || t % 100 == 0) std::printf("step %3d  loss %.6f\n", t, loss_value);
  }
  return loss_value < 1e-3 ? 0 : 1;
}
