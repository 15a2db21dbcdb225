// A toy task on feature sequences.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/support/array_file.h"

namespace nystrom::testing {

/// Writes sequences of three features and returns their classes or numbers. The class is 1, or the
/// number is positive, when the first feature is positive in the last step.
inline std::vector<double> write_features(const std::filesystem::path& path, bool classes,
                                          hsize_t samples, std::uint32_t seed) {
  constexpr hsize_t steps = 8, width = 3;
  std::minstd_rand random(seed);
  std::normal_distribution<float> normal;
  std::vector<double> features, lengths, labels, values;
  for (hsize_t i = 0; i < samples; ++i) {
    lengths.push_back(static_cast<double>(1 + random() % steps));
    for (hsize_t j = 0; j < steps * width; ++j) features.push_back(normal(random));
    values.push_back(features[(i * steps + static_cast<hsize_t>(lengths.back()) - 1) * width]);
    labels.push_back(values.back() > 0);
  }
  const std::vector<double>& targets = classes ? labels : values;
  ArrayFile(path)
      .add("features", H5T_NATIVE_FLOAT, {samples, steps, width}, features)
      .add("lengths", H5T_NATIVE_INT64, {samples}, lengths)
      .add(classes ? "labels" : "values", classes ? H5T_NATIVE_INT64 : H5T_NATIVE_FLOAT, {samples},
           targets);
  return targets;
}

inline const std::string features_model =
    "model: {norm: pre, positions: none, embed_dim: 3, hidden_size: 16, num_hidden_layers: 1, "
    "num_attention_heads: 2, intermediate_size: 16, initializer_range: 0.1, hidden_dropout_prob: "
    "0.0, attention: {landmark_source: keys, num_landmarks: 4, conv_kernel_size: null}}\n"
    "data: {sequence_length: 8}\nrun_dir: run\noptimizer: {learning_rate: 1.0e-2}\nlogging: "
    "{tensorboard: false}\n"
    "training: {dtype: f32, epochs: 12, batch_size: 32, micro_batch_size: 16}\n"
    "task: {kind: features, train: [train.h5], validation: [dev.h5]}\n";

}  // namespace nystrom::testing
