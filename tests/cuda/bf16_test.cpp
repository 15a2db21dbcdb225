// bf16 from end to end on the fused kernels and the tensor cores: a layer with the base model's
// heads, landmarks and convolution at length 512, compared with f64 on the CPU.
#include "core/cuda/runtime.h"
#include "tests/cuda/device.h"
#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

class Bf16Test : public GpuTest<> {};

/// One layer of the base model, narrower: two heads instead of twelve.
ModelConfig base_shaped() {
  ModelConfig config = tiny_config();
  config.vocab_size = 50;
  config.hidden_size = 128;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 128;
  config.max_position_embeddings = 512;
  config.attention.num_landmarks = 64;
  config.attention.conv_kernel_size = 33;
  config.head = Head::masked_lm;
  return config;
}

struct Results {
  double loss;
  std::vector<std::pair<std::string, Tensor>> gradients;
};

Results evaluate(DType dtype, Device device) {
  const auto model = make_model(base_shaped(), dtype, 2, device);
  const ModelInput input = input_of(base_shaped(), Layout{{std::string(512, '1')}});
  Tensor labels = Tensor::full({1, 512}, ignore_index, DType::i64);
  for (std::int64_t at = 3; at < 512; at += 7) labels.data<std::int64_t>()[at] = 3 + at % 40;
  Tape tape;
  const Var loss = model->masked_lm(input, labels, 0, {}).loss;
  Results results{loss.value().item(), {}};
  tape.backward(loss);
  for (const Parameter& parameter : model->parameters().parameters())
    if (!is_key_bias(parameter.name()))
      results.gradients.emplace_back(parameter.name(),
                                     model->parameters().gradient(parameter.name()).to(cpu_device));
  return results;
}

TEST_F(Bf16Test, ALayerOfTheBaseModelIsWithinItsBoundsOfF64) {
  const std::int64_t slow = cuda::slow_products().count;
  const Results expected = evaluate(DType::f64, cpu_device), got = evaluate(DType::bf16, gpu);
  EXPECT_NEAR(got.loss, expected.loss, 3e-3 * expected.loss);
  for (std::size_t i = 0; i < got.gradients.size(); ++i)
    EXPECT_LE(relative_difference(got.gradients[i].second, expected.gradients[i].second), 8e-2)
        << got.gradients[i].first;
  EXPECT_EQ(cuda::slow_products().count, slow) << cuda::slow_products().first;
  run_threads_backward();
  const Results again = evaluate(DType::bf16, gpu);
  EXPECT_EQ(again.loss, got.loss);
  for (std::size_t i = 0; i < got.gradients.size(); ++i)
    EXPECT_EQ(again.gradients[i].second.to_doubles(), got.gradients[i].second.to_doubles())
        << got.gradients[i].first;
}

}  // namespace
}  // namespace nystrom::testing
