// Threads that use the GPU at the same time.
#include <thread>

#include "autograd/ops.h"
#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

class CudaThreadsTest : public GpuTest<> {};

/// What one thread computes: copies of every size that the staging ring takes, products of equal
/// shapes with biases of its own, gradients with their sums, and a kernel that asks for much shared
/// memory.
std::vector<std::vector<double>> work(std::uint64_t seed, int rounds) {
  std::vector<std::vector<double>> results;
  for (int round = 0; round < rounds; ++round) {
    const auto random = [&](const Shape& shape, std::uint64_t stream) {
      return random_normal(shape, 1000 * seed + 10 * static_cast<std::uint64_t>(round) + stream)
          .cast(DType::f32)
          .to(gpu);
    };
    const Var x = Var::leaf(random({3, 8}, 1)), weight = Var::leaf(random({16, 8}, 2)),
              bias = Var::leaf(random({16}, 3));
    Tape tape;
    const Var y = linear(x, weight, bias);
    results.push_back(y.value().to_doubles());
    results.push_back(
        pseudo_inverse_iterative(softmax(Var(random({1, 32, 32}, 4))), 2).value().to_doubles());
    tape.backward(sum(square(y)));
    for (const Var& leaf : {x, weight, bias}) results.push_back(leaf.grad().to_doubles());
  }
  return results;
}

TEST_F(CudaThreadsTest, ComputeTheBitsThatOneComputesAlone) {
  constexpr int threads = 4, rounds = 12;
  std::vector<std::vector<std::vector<double>>> together(threads);
  {
    std::vector<std::jthread> running;
    for (std::size_t i = 0; i < threads; ++i)
      running.emplace_back([&, i] { together[i] = work(i, rounds); });
  }
  for (std::size_t i = 0; i < threads; ++i)
    EXPECT_EQ(together[i], work(i, rounds)) << "thread " << i;
}

}  // namespace
}  // namespace nystrom::testing
