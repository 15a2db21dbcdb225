// Safetensors files: the format in which weights are kept and exchanged. Reading is strict
// (train/formats/safetensors_header.h says how) and streams; writing is all or nothing.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/file_io.h"
#include "core/tensor.h"
#include "train/formats/safetensors_header.h"

namespace nystrom {

/// What to do about NaN and infinity in floating tensors.
enum class NonFinite { allow, refuse };

/// An open file whose header was checked. Reading tensors is const and may happen from several
/// threads. Every error is an InputError "FILE: what is wrong".
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  /// Opens `name` inside `folder` without following a link.
  static SafetensorsFile open_inside(const std::filesystem::path& folder, const std::string& name);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the order of their bytes in the file.
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  /// Without the checksums.
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  bool contains(const std::string& name) const { return index_.contains(name); }
  /// Throws when there is no such tensor.
  const StoredTensor& stored(const std::string& name) const;

  /// The tensor on the CPU in dtype_of_stored(type). InputError when it is absent, its checksum is
  /// not that of its bytes (a tensor without one is accepted), or it has a non-finite value and
  /// these are refused.
  Tensor read(const std::string& name, NonFinite non_finite = NonFinite::allow) const;
  /// The same into a contiguous CPU tensor of the same shape. Between floating types values are
  /// converted; other types must be the stored one. After an error `destination` is partly written.
  void read_into(const std::string& name, Tensor& destination,
                 NonFinite non_finite = NonFinite::allow) const;

 private:
  explicit SafetensorsFile(InputFile file);

  InputFile file_;
  SafetensorsHeader header_;
  std::int64_t data_begin_ = 0;
  std::unordered_map<std::string, std::size_t> index_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Writes `tensors` (from any device) with their checksums and `metadata`, to which "format": "pt"
/// is added. The layout is Hugging Face's: by type, then by name. The file appears whole and
/// durable, or not at all. InputError when the system refuses; Error for names that are not tensor
/// names, duplicates, and metadata keys reserved for checksums. Returns the checksum of the whole
/// file.
std::string write_safetensors(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace nystrom
