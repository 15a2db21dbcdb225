// The forms of files with vectors, one vector a text.
//
// npy: NumPy's array [rows, width], written in format 1.0. safetensors: one tensor `vectors` [rows,
// width]. jsonl: a line {"text": …, "vector": […]} a text, with "id" where the text has one; the
// whole files of --document have {"document": name, "vector": […]}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/dtype.h"
#include "data/tasks/examples.h"

namespace nystrom {

enum class VectorFormat { npy, safetensors, jsonl };

/// The name of the tensor in a safetensors file.
inline constexpr const char* vectors_tensor = "vectors";

/// The form that the ending of a name tells. Throws an InputError for another ending.
VectorFormat vector_format_of(const std::filesystem::path& path);

/// The size of a matrix of vectors. f32 and f16 are written.
struct VectorMatrix {
  std::int64_t rows = 0, width = 0;
  DType dtype = DType::f32;

  std::int64_t row_bytes() const { return width * size_of(dtype); }
};

/// The header of an npy file: 128 bytes.
std::string npy_header(const VectorMatrix& matrix);

/// The header of a safetensors file whose data has this checksum of 32 digits. Its length does not
/// depend on the checksum.
std::string vectors_header(const VectorMatrix& matrix, const std::string& checksum);

/// The line of a jsonl file, with its end.
std::string vector_line(const Example& example, std::span<const float> vector);

/// Whether the example is a whole file, known by its name (TaskFormat::documents).
bool is_whole_file(const Example& example);

}  // namespace nystrom
