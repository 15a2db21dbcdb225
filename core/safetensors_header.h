// The header of a safetensors file: types, names, shapes and positions of its tensors. It is read
// strictly, and written as Hugging Face's library writes it.
//
// Checksums are XXH3-128 in 32 lower-case hexadecimal digits. They are in the metadata under
// `nystrom.integrity`, as a JSON object from tensor names to checksums of their bytes. Its entry
// `__metadata__`, which no tensor may have as a name, is the checksum of the header itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_io.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace nystrom {

/// The name of a type in files: "F32".
const char* stored_name(DType dtype);
/// Whether a tensor of type `a` is written before one of type `b`: by descending alignment, as
/// Hugging Face's library writes them.
bool is_stored_before(DType a, DType b);

/// The entry of a tensor: its place in a file.
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;  ///< u8 for BOOL
  Shape shape;
  std::int64_t begin = 0;  ///< first byte, relative to the end of the header
  std::int64_t end = 0;
  std::string checksum;                   ///< empty if the file has none
  std::optional<Shape> strides = {};      ///< of a state dict's tensor that is not contiguous
  std::optional<std::uint32_t> crc = {};  ///< CRC-32 of the bytes, where a zip archive has it

  /// The bytes of the tensor.
  std::int64_t bytes() const { return end - begin; }
};

/// A parsed header.
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            ///< in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< without nystrom.integrity
};

inline constexpr std::int64_t safetensors_length_bytes = 8;
inline constexpr std::int64_t max_safetensors_header = 100'000'000;
inline constexpr const char* integrity_key = "nystrom.integrity";

/// The length of the header, from the `first` 8 bytes of a file of `file_size` bytes. Throws an
/// InputError when it exceeds the file or the limit.
std::int64_t safetensors_header_length(std::string_view first, std::int64_t file_size);

/// Parses the header `text` of a file with `data_bytes` bytes of data. Throws an InputError for
/// every violation of the format. These are duplicate or unknown keys, other types or names,
/// numbers out of range, and rank above 8. Others are wrong sizes, gaps, overlaps, bytes without a
/// tensor, and a header that does not match its checksum.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes);

/// The parsed header of an open file, without its name in errors. Positions of tensors are those in
/// the file.
SafetensorsHeader read_safetensors_header(const InputFile& file);

/// The bytes before the data: length and header with checksums, padded to a multiple of 8.
/// `tensors` must have their checksums.
std::string safetensors_header_bytes(const SafetensorsHeader& header);

/// Whether the name matches `[A-Za-z0-9._-]{1,256}`.
bool is_tensor_name(std::string_view name);

}  // namespace nystrom
