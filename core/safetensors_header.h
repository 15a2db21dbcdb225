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

#include "core/dtype.h"
#include "core/shape.h"

namespace nystrom {

/// The supported element types, in the order of the layout: by descending alignment, as in Hugging
/// Face's library.
enum class StoredType { i64, f64, f32, i32, bf16, f16, u8, boolean };

/// The type of a tensor that is read from `type`: f16 becomes f32, and boolean becomes u8.
DType dtype_of_stored(StoredType type);
/// The stored type of `dtype`.
StoredType stored_type_of(DType dtype);
/// The name of a type in files: "F32".
const char* stored_name(StoredType type);
/// The bytes of an element.
std::int64_t stored_size(StoredType type);

/// The entry of a tensor: its place in a file.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
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

/// The bytes before the data: length and header with checksums, padded to a multiple of 8.
/// `tensors` must have their checksums.
std::string safetensors_header_bytes(const SafetensorsHeader& header);

/// Whether the name matches `[A-Za-z0-9._-]{1,256}`.
bool is_tensor_name(std::string_view name);

}  // namespace nystrom
