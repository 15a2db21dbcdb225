#include "train/objectives/vector_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "core/npy_header.h"
#include "core/safetensors_header.h"
#include "data/tasks/word_cut.h"
#include "data/text/match_files.h"
#include "data/text/row_lines.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* too_large = "is too large for f32";

void require_finite(const Tensor& vectors, const fs::path& path, std::int64_t first_row,
                    const char* otherwise) {
  const std::int64_t bad = first_non_finite(vectors), width = vectors.dim(1);
  require_input(bad < 0, "{}: number {} of vector {} {}", printable_path(path), bad % width,
                first_row + bad / width, otherwise);
}

/// The vectors in a binary file, [rows, width].
StoredTensor vectors_in(const InputFile& file) {
  StoredTensor vectors;
  if (vector_format_of(file.path()) == VectorFormat::npy) {
    vectors = read_npy_header(file);
  } else {
    const SafetensorsHeader header = read_safetensors_header(file);
    const auto found = std::ranges::find(header.tensors, vectors_tensor, &StoredTensor::name);
    require_input(found != header.tensors.end(), "has no tensor {}", vectors_tensor);
    vectors = *found;
  }
  const std::string what = vectors.name.empty() ? "the array" : "tensor " + vectors.name;
  require_input(is_float(vectors.dtype), "{} is {}; expected F16, BF16, F32 or F64", what,
                stored_name(vectors.dtype));
  require_input(vectors.shape.rank() == 2, "{} is {}, expected [rows, width]", what, vectors.shape);
  require_input(vectors.bytes() > 0, "there are no vectors in it");
  return vectors;
}

void read_binary(const InputFile& file, std::int64_t rows_at_once,
                 const std::function<void(VectorBlock&&)>& use) {
  const std::string name = printable_path(file.path());
  const StoredTensor stored = with_context(name, [&] { return vectors_in(file); });
  const VectorMatrix matrix{stored.shape[0], stored.shape[1], stored.dtype};
  Checksum checksum;
  for (std::int64_t first = 0; first < matrix.rows; first += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, matrix.rows - first);
    Tensor as_stored = Tensor::empty({rows, matrix.width}, matrix.dtype);
    const std::span<std::byte> bytes = bytes_of(as_stored);
    file.read(bytes, stored.begin + first * matrix.row_bytes());
    checksum.update(bytes.data(), bytes.size());
    require_finite(as_stored, file.path(), first, "is not finite");
    Tensor vectors = as_stored.cast(DType::f32);
    require_finite(vectors, file.path(), first, too_large);
    require_input(
        first + rows < matrix.rows || stored.checksum.empty() || stored.checksum == checksum.hex(),
        "{}: tensor {} is damaged: its checksum is not that in {}", name, vectors_tensor,
        integrity_key);
    use({std::move(vectors), {}});
  }
}

/// The text of a line of vectors.
Example example_in(const nlohmann::json& object) {
  const auto text = [&](const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_structured() || found->is_null()) return std::string();
    return found->is_string() ? found->get<std::string>() : found->dump();
  };
  Example example;
  example.id = text("id");
  example.named = object.contains("id");
  example.text = text("text");
  if (const std::string document = text("document"); !document.empty()) {
    example.id = document;
    example.whole_file = true;
  }
  return example;
}

void read_lines(const fs::path& path, std::int64_t rows_at_once,
                const std::function<void(VectorBlock&&)>& use) {
  const std::string name = printable_path(path);
  RowLines lines(path, EmptyLines::are_rows, is_blank, "; remove it");
  std::int64_t width = 0, row = 0;
  std::vector<float> numbers;
  std::vector<Example> examples;
  const auto flush = [&] {
    if (examples.empty()) return;
    VectorBlock block{Tensor::from(numbers, {std::ssize(examples), width}),
                      std::exchange(examples, {})};
    numbers.clear();
    require_finite(block.vectors, path, row, too_large);  // JSON has no other
    row += block.vectors.dim(0);
    use(std::move(block));
  };
  while (lines.next(/*one_cell=*/false)) {
    const std::string place = lines.place(lines.lines.line());
    const nlohmann::json object = parse_json(lines.line, place, keep_digits);
    const bool is_row = object.is_object() && object.contains("vector") &&
                        object["vector"].is_array() && !object["vector"].empty();
    require_input(is_row, "{}: expected an object with a list \"vector\"", place);
    const nlohmann::json& vector = object["vector"];
    if (width == 0) width = std::ssize(vector);
    require_input(std::ssize(vector) == width,
                  "{}: the vector has {} numbers, those before have {}", place, vector.size(),
                  width);
    for (const nlohmann::json& number : vector) {
      require_input(number.is_number(), "{}: the vector holds {}, which is no number", place,
                    printable(number.dump(), 40));
      numbers.push_back(number.get<float>());
    }
    examples.push_back(example_in(object));
    if (std::ssize(examples) == rows_at_once) flush();
  }
  flush();
  require_input(width > 0, "{}: there are no vectors in it", name);
}

}  // namespace

void read_vectors(const fs::path& path, std::int64_t rows,
                  const std::function<void(VectorBlock&&)>& use) {
  if (table_format_of(path) == TableFormat::jsonl) return read_lines(path, rows, use);
  read_binary(InputFile::open(path), rows, use);
}

bool holds_vectors(const fs::path& path) {
  const std::string ending = last_ending(path);
  if (ending == ".npy" || ending == ".safetensors") return true;
  if (table_format_of(path) != TableFormat::jsonl || !fs::is_regular_file(path)) return false;
  std::string line;
  if (!LineReader(path).next(line)) return false;
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  // Rows without a text, but with other programs' names of vectors, are refused by read_vectors.
  const auto has = [&](const char* key) { return object.contains(key); };
  return object.is_object() &&
         (has("vector") || (!has("text") && (has("embedding") || has("embeddings"))));
}

}  // namespace nystrom
