// The weights of a model folder, in one file or in shards.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/formats/safetensors.h"

namespace nystrom {

/// One lookup over `model.safetensors`, or over the shards that `model.safetensors.index.json`
/// names.
class ModelWeights {
 public:
  /// InputError when the folder has neither (pickle files are never read, and the message says how
  /// to convert them), when a file is refused by SafetensorsFile, and when index and shards differ.
  /// Shards are opened by their names alone, without following links.
  static ModelWeights open(const std::filesystem::path& folder);

  /// Sorted.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return file_of_.contains(name); }
  /// The file, type and shape of a tensor; throws when there is none of that name.
  const StoredTensor& stored(const std::string& name) const { return file_with(name).stored(name); }

  /// As SafetensorsFile's.
  Tensor read(const std::string& name, NonFinite non_finite = NonFinite::refuse) const;
  void read_into(const std::string& name, Tensor& destination,
                 NonFinite non_finite = NonFinite::refuse) const;

 private:
  const SafetensorsFile& file_with(const std::string& name) const;

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

/// From the JSON text of an index: tensor name → shard's file name. InputError, with `source` in
/// front, for anything but an object with a `weight_map` of tensor names to basenames
/// `[A-Za-z0-9._-]+.safetensors`.
std::map<std::string, std::string> parse_weight_map(std::string_view text,
                                                    const std::string& source);

}  // namespace nystrom
