// Files of tensors: safetensors, the format in which weights are stored and exchanged, and state
// dicts of PyTorch, which are read only. Reading is strict (see core/safetensors_header.h and
// read_state_dict) and streams; writing is all or nothing.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/file_io.h"
#include "core/safetensors_header.h"
#include "core/tensor.h"

namespace nystrom {

/// The treatment of NaN and infinity in floating tensors.
enum class NonFinite { allow, refuse };

/// The forms of files that are read.
enum class TensorFormat { safetensors, state_dict };

/// An open file with a verified header or pickle. Several threads may read tensors at the same
/// time. Every error is an InputError "FILE: problem".
class TensorFile {
 public:
  /// Opens a file and verifies its header.
  static TensorFile open(const std::filesystem::path& path,
                         TensorFormat format = TensorFormat::safetensors);
  /// Opens `name` inside `folder` without following a link.
  static TensorFile open_inside(const std::filesystem::path& folder, const std::string& name,
                                TensorFormat format = TensorFormat::safetensors);

  const std::filesystem::path& path() const { return file_.path(); }
  /// All tensors, in the order of a safetensors file's bytes or of a state dict's entries.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  bool contains(const std::string& name) const { return index_.contains(name); }
  /// The type, shape and position of a tensor. Throws when it does not exist.
  const StoredTensor& stored(const std::string& name) const;

  /// Reads a tensor to the CPU, f16 as f32. Throws an InputError when it is absent, or does not
  /// match its checksum (in a zip archive: its CRC-32); tensors without one are accepted. With
  /// NonFinite::refuse a non-finite value is an InputError too.
  Tensor read(const std::string& name, NonFinite non_finite = NonFinite::allow) const;

 private:
  TensorFile(InputFile file, TensorFormat format);

  InputFile file_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// The tensors of a state dict of PyTorch (torch.save), in the zip form and in that of before 1.6.
/// Nothing in it is executed. Positions count from the beginning of the file. Entries that are
/// numbers, strings or None are left out. Throws an InputError for anything that is not a state
/// dict of plain tensors: other functions and operations in its pickle (parse_pickle), nested
/// dicts, duplicate or invalid names, other types, compressed or encrypted entries, big-endian
/// files, and tensors that exceed or repeat their storage.
std::vector<StoredTensor> read_state_dict(const InputFile& file);

/// Writes `tensors`, from any device, with their checksums and the metadata "format": "pt". The
/// layout is Hugging Face's: by type, then by name. The file appears complete and durable, or not
/// at all. Returns the checksum of the file. Throws an InputError when the system refuses, and an
/// Error for invalid or duplicate names.
std::string write_safetensors(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors);

}  // namespace nystrom
