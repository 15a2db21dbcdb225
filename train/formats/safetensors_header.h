// The header of a safetensors file: types, names, shapes and places of its tensors, read strictly
// and written as Hugging Face's library writes it.
//
// Checksums are XXH3-128 in 32 lower-case hexadecimal digits, in the metadata under
// `nystrom.integrity`, as a JSON object from tensor name to the checksum of its bytes; the entry
// `__metadata__` (which no tensor may be called) is the checksum of the header itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace nystrom {

/// Element types that are read, in the order in which tensors are laid out (descending alignment,
/// as Hugging Face does).
enum class StoredType { i64, f64, f32, i32, bf16, f16, u8, boolean };

/// The type of a tensor read from `type`: f16 becomes f32, boolean u8.
DType dtype_of_stored(StoredType type);
StoredType stored_type_of(DType dtype);
/// The word in files: "F32".
const char* stored_name(StoredType type);
std::int64_t stored_size(StoredType type);

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape;
  std::int64_t begin = 0;  ///< first byte, counted from the end of the header
  std::int64_t end = 0;
  std::string checksum;  ///< empty: none in the file

  std::int64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            ///< in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< without nystrom.integrity
};

inline constexpr std::int64_t safetensors_length_bytes = 8;
inline constexpr std::int64_t max_safetensors_header = 100'000'000;
inline constexpr const char* integrity_key = "nystrom.integrity";

/// The header's length, from the `first` 8 bytes of a file of `file_size` bytes. InputError when it
/// fits neither the file nor the cap.
std::int64_t safetensors_header_length(std::string_view first, std::int64_t file_size);

/// The header `text` of a file with `data_bytes` bytes behind it. InputError for everything that
/// the format does not promise: duplicate or unknown keys, other types, names, numbers out of
/// range, rank above 8, sizes that do not fit, holes, overlaps, bytes that belong to no tensor, and
/// a header that is not the one its checksum was made for.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes);

/// The bytes in front of the data: length and header with checksums, padded to 8. `tensors` carry
/// their checksums.
std::string safetensors_header_bytes(const SafetensorsHeader& header);

/// True for `[A-Za-z0-9._-]{1,256}`.
bool is_tensor_name(std::string_view name);

}  // namespace nystrom
