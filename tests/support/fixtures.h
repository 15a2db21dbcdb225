// The committed fixtures below tests/fixtures: a model folder, a batch and the results of the
// reference.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/places.h"
#include "train/state/safetensors.h"

namespace nystrom::testing {

inline std::filesystem::path fixture_folder() { return source_folder() / "tests" / "fixtures"; }

/// Returns the names of the folders below tests/fixtures/KIND in sorted order.
inline std::vector<std::string> fixture_names(const std::string& kind) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixture_folder() / kind))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::map<std::string, Tensor> read_tensors(const std::filesystem::path& path) {
  const auto file = TensorFile::open(path);
  std::map<std::string, Tensor> tensors;
  for (const auto& tensor : file.tensors()) tensors.emplace(tensor.name, file.read(tensor.name));
  return tensors;
}

}  // namespace nystrom::testing
