// Comparison with reference results (tests/fixtures): forward and backward of whole models.
// Tolerances are relative to each tensor's largest entry. Tensors that are exactly 0 are compared
// with an absolute tolerance.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/fixtures.h"
#include "tests/support/random.h"
#include "train/export/forward.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"

namespace nystrom::testing {

struct Tolerance {
  DType dtype;
  double outputs, gradients;
};

struct Golden {
  std::string kind, name;
};
inline void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.kind << "/" << golden.name;
}  // NOLINT: GoogleTest's name

/// Returns `tensor` with zeros at masked positions.
inline Tensor without_padding(const Tensor& tensor, const NamedTensors& inputs) {
  if (!inputs.contains("attention_mask")) return tensor;
  const Tensor mask = inputs.at("attention_mask");
  const std::vector<double> valid = mask.to_doubles();
  std::vector<double> values = tensor.to_doubles();
  const std::size_t width = values.size() / valid.size();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = valid[i / width] != 0 ? values[i] : 0;
  return Tensor::from(values, tensor.shape());
}

/// The expected tensors of a fixture. Gradients of BERT's family get this program's names.
inline std::map<std::string, Tensor> expected_tensors(const ModelFolder& folder) {
  std::map<std::string, Tensor> result;
  const Architecture* architecture = folder.architecture;
  for (const auto& [name, value] : read_tensors(folder.path / "expected.safetensors")) {
    if (architecture == nullptr || !name.starts_with("grad.")) {
      result.emplace(name, value);
      continue;
    }
    const auto parts = architecture->parts_of(
        architecture->parameter_name(name.substr(5), folder.config.head).value());
    const std::int64_t rows = value.dim(0) / std::ssize(parts);
    for (std::int64_t i = 0; i < std::ssize(parts); ++i)
      result.emplace("grad." + parts[static_cast<std::size_t>(i)],
                     value.slice(0, i * rows, (i + 1) * rows).contiguous());
  }
  return result;
}

inline void expect_equal(const Golden& golden, const Tolerance& tolerance,
                         Device device = cpu_device) {
  const ModelFolder folder(fixture_folder() / golden.kind / golden.name);
  const auto model = load_model(folder, tolerance.dtype, StoreMode::training, device);
  const auto inputs = read_tensors(folder.path / "batch.safetensors");
  auto expected = expected_tensors(folder);
  // The sequence block's fixtures have a plain sum as loss. Terms that cancel there leave noise of
  // the gradients' magnitude.
  double zero_scale = 1;
  for (const auto& [name, value] : expected)
    zero_scale = inputs.contains("features") ? std::max(zero_scale, largest(value)) : 1;
  for (const auto& [name, value] : run_forward(*model, inputs, expected.contains("loss"))) {
    if (name == "last_hidden_state" && inputs.contains("features"))
      continue;  // the reference keeps only the last step
    ASSERT_TRUE(expected.contains(name)) << "computed, but not expected: " << name;
    // transformers computes outputs at padded positions too.
    // Of ModernBERT nystrom computes no padding.
    const bool leaves_out = golden.name.starts_with("modernbert"),
               ours = (golden.kind != "hf" && golden.kind != "architectures") || leaves_out;
    const bool by_position = name == "last_hidden_state" || name.ends_with("_logits") ||
                             (name == "logits" && value.rank() == 3);
    const Tensor got = ours && by_position ? without_padding(value, inputs) : value;
    if (leaves_out && by_position) expected[name] = without_padding(expected[name], inputs);
    const bool gradient = name.starts_with("grad.");
    const double scale = largest(expected[name]);
    const double difference = max_difference(got, expected[name]);
    if (scale < 1e-9) {
      EXPECT_LE(difference, 1e-6 * zero_scale) << name << " is exactly 0";
    } else {
      EXPECT_LE(Difference{difference / scale}, gradient ? tolerance.gradients : tolerance.outputs)
          << name;
    }
    expected.erase(name);
  }
  for (const auto& [name, value] : expected)
    ADD_FAILURE() << "expected, but not computed: " << name;
}

inline std::vector<Golden> all_golden() {
  std::vector<Golden> all;
  for (const std::string kind : {"hf", "architectures", "nystrom", "baselines"}) {
    for (const auto& name : fixture_names(kind)) all.push_back({kind, name});
  }
  return all;
}

}  // namespace nystrom::testing
