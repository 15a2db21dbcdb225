// A toy task on feature sequences.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace nystrom::testing {

/// Writes sequences of three features and returns their classes or numbers. The class is 1, or the
/// number is positive, when the first feature is positive in the last step.
inline std::vector<double> write_features(const std::filesystem::path& path, bool classes,
                                          hsize_t samples, std::uint32_t seed) {
  constexpr hsize_t steps = 8, width = 3;
  std::minstd_rand random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> features, values;
  std::vector<std::int64_t> lengths, labels;
  for (hsize_t i = 0; i < samples; ++i) {
    lengths.push_back(static_cast<std::int64_t>(1 + random() % steps));
    for (hsize_t j = 0; j < steps * width; ++j) features.push_back(normal(random));
    const float last = features[(i * steps + static_cast<hsize_t>(lengths.back()) - 1) * width];
    labels.push_back(last > 0);
    values.push_back(last);
  }
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const auto put = [&](const char* name, hid_t type, const std::vector<hsize_t>& shape,
                       const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
    H5Dclose(set);
    H5Sclose(space);
  };
  put("features", H5T_NATIVE_FLOAT, {samples, steps, width}, features.data());
  put("lengths", H5T_NATIVE_INT64, {samples}, lengths.data());
  if (classes) {
    put("labels", H5T_NATIVE_INT64, {samples}, labels.data());
  } else {
    put("values", H5T_NATIVE_FLOAT, {samples}, values.data());
  }
  H5Fclose(file);
  return classes ? std::vector<double>(labels.begin(), labels.end())
                 : std::vector<double>(values.begin(), values.end());
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
