// The committed fixtures below tests/fixtures: a model folder, a batch and the results of the
// reference.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"
#include "train/state/safetensors.h"

namespace nystrom::testing {

inline std::filesystem::path fixture_folder() { return source_folder() / "tests" / "fixtures"; }

/// Returns the names of the folders below tests/fixtures/KIND in sorted order.
inline std::vector<std::string> fixture_names(const std::string& kind) {
  return names_in(fixture_folder() / kind);
}

inline std::map<std::string, Tensor> read_tensors(const std::filesystem::path& path) {
  const auto file = TensorFile::open(path);
  std::map<std::string, Tensor> tensors;
  for (const auto& tensor : file.tensors()) tensors.emplace(tensor.name, file.read(tensor.name));
  return tensors;
}

}  // namespace nystrom::testing
