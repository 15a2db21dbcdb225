// The weights of a model folder, in one file or in several shards.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/state/safetensors.h"

namespace nystrom {

/// The tensors of `model.safetensors`, or of the shards that `model.safetensors.index.json` names.
/// A folder without them has `pytorch_model.bin`, or `pytorch_model.bin.index.json` and its shards.
class ModelWeights {
 public:
  /// Throws an InputError when the folder has none of them, which says what it holds and how to
  /// convert it (what_folder_holds). Errors of TensorFile, and differences between index and
  /// shards, are InputErrors too. A shard that is a link is opened if its
  /// file lies in the folder, or in the hub's cache that the folder belongs to.
  static ModelWeights open(const std::filesystem::path& folder);

  /// Whether the folder has weights that open() reads.
  static bool exist(const std::filesystem::path& folder);

  /// A hash of the bytes of all files.
  std::string checksum() const;
  /// The names of all tensors, sorted.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return file_of_.contains(name); }
  /// The file, type and shape of a tensor. Throws when it does not exist.
  const StoredTensor& stored(const std::string& name) const { return file_with(name).stored(name); }

  /// Reads a tensor as TensorFile::read does with NonFinite::refuse.
  Tensor read(const std::string& name) const {
    return file_with(name).read(name, NonFinite::refuse);
  }

 private:
  const TensorFile& file_with(const std::string& name) const;

  std::filesystem::path folder_;
  std::vector<TensorFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

/// Parses the JSON text of an index: tensor name → file name of its shard. The text must be an
/// object with a `weight_map` from tensor names to basenames `[A-Za-z0-9._-]+` that end with
/// `suffix`. Throws an InputError that begins with `source` for anything else.
std::map<std::string, std::string> parse_weight_map(std::string_view text,
                                                    const std::string& source,
                                                    std::string_view suffix = ".safetensors");

}  // namespace nystrom
