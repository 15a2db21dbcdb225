#include "train/objectives/vector_format.h"

#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/check.h"
#include "core/safetensors_header.h"

namespace nystrom {

VectorFormat vector_format_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".npy") return VectorFormat::npy;
  if (ending == ".safetensors") return VectorFormat::safetensors;
  require_input(ending == ".jsonl",
                "{}: its ending tells no form of vectors; expected .npy, .safetensors or .jsonl",
                printable_path(path));
  return VectorFormat::jsonl;
}

std::string npy_header(const VectorMatrix& matrix) {
  constexpr std::size_t size = 128, before = 10;
  std::string text = fmt::format("{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 size_of(matrix.dtype), matrix.rows, matrix.width);
  text.resize(size - before - 1, ' ');
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(size - before);
  header += '\0';
  return header + text + '\n';
}

std::string vectors_header(const VectorMatrix& matrix, const std::string& checksum) {
  SafetensorsHeader header;
  header.metadata["format"] = "pt";
  header.tensors.push_back({vectors_tensor,
                            stored_type_of(matrix.dtype),
                            {matrix.rows, matrix.width},
                            0,
                            matrix.rows * matrix.row_bytes(),
                            checksum});
  return safetensors_header_bytes(header);
}

bool is_whole_file(const Example& example) { return example.file && example.id == *example.file; }

std::string vector_line(const Example& example, std::span<const float> vector) {
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string line = "{";
  if (is_whole_file(example)) {
    line += "\"document\": " + quoted(example.id);
  } else {
    if (!example.id.empty()) line += "\"id\": " + quoted(example.id) + ", ";
    line += "\"text\": " + quoted(example.text);
  }
  return line + fmt::format(", \"vector\": [{}]}}\n", fmt::join(vector, ", "));
}

}  // namespace nystrom
