// A custom model: a network with one hidden layer learns sin 3x from points.
#include <cmath>
#include <cstdio>
#include <vector>

#include "nn/layers.h"
#include "train/optim/optimizer.h"

using namespace nystrom;

int main() {
  constexpr int points = 256, width = 32, steps = 1000;
  std::vector<float> x, y;
  for (int i = 0; i < points; ++i) {
    x.push_back(2.0f * static_cast<float>(i) / (points - 1) - 1);
    y.push_back(std::sin(3 * x.back()));
  }
  const Var inputs = Tensor::from(x, {points, 1});
  const Tensor targets = Tensor::from(y, {points, 1});

  ParameterStore parameters;
  const Scope root(parameters);
  const Linear hidden(root / "hidden", 1, width), output(root / "output", width, 1);
  parameters.allocate(DType::f32, StoreMode::training);
  parameters.initialise(/*seed=*/1, /*standard_deviation=*/1);
  Optimizer optimizer(parameters, {.weight_decay = 1e-4});

  double loss_value = 0;
  for (int step = 1; step <= steps; ++step) {
    Tape tape;
    const Var loss = mean_squared_error(output(tanh(hidden(inputs))), targets);
    tape.backward(loss);
    optimizer.step(/*learning_rate=*/0.02);
    optimizer.zero_gradients();
    loss_value = loss.value().item();
    if (step == 1 || step % 250 == 0) std::printf("step %3d  loss %.6f\n", step, loss_value);
  }
  return loss_value < 1e-3 ? 0 : 1;
}
