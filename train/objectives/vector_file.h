// Files with vectors, one vector a text.
//
// npy: NumPy's array [rows, width], written in format 1.0. safetensors: one tensor `vectors` [rows,
// width]. jsonl: a line {"text": …, "vector": […]} a text, with "id" where the text has one; the
// whole files of --document have {"document": name, "vector": […]}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "core/tensor.h"
#include "data/tasks/examples.h"

namespace nystrom {

enum class VectorFormat { npy, safetensors, jsonl };

/// The form that the ending of a name tells. Throws an InputError for another ending.
VectorFormat vector_format_of(const std::filesystem::path& path);

/// The name of the tensor in a safetensors file.
inline constexpr const char* vectors_tensor = "vectors";

/// The size of a matrix of vectors. f32 and f16 are written.
struct VectorMatrix {
  std::int64_t rows = 0, width = 0;
  DType dtype = DType::f32;

  std::int64_t row_bytes() const { return width * size_of(dtype); }
};

/// The line of a jsonl file, with its end.
std::string vector_line(const Example& example, std::span<const float> vector);

/// `vectors` [n, width] f32 rounded to `dtype`, f16 or f32. Throws an InputError for a number that
/// f16 does not hold.
Tensor rounded_vectors(const Tensor& vectors, DType dtype);

// ---- Reading ------------------------------------------------------------------------------------

/// Vectors of neighbouring rows.
struct VectorBlock {
  Tensor vectors;  ///< [n, width] f32 on the CPU
  /// jsonl: the texts, with their ids; otherwise empty.
  std::vector<Example> examples{};
};

/// Reads a file of vectors in f16, bf16, f32 or f64 (rounded to f32) from its beginning to its end,
/// and calls `use` with blocks of at most `rows` of them. Throws an InputError for a file of
/// another form, and "FILE: …" for damage and for numbers that are not finite.
void read_vectors(const std::filesystem::path& path, std::int64_t rows,
                  const std::function<void(VectorBlock&&)>& use);

/// Whether a file holds vectors: by its ending, and for .jsonl by its first line.
bool holds_vectors(const std::filesystem::path& path);

// ---- Writing ------------------------------------------------------------------------------------

/// Throws an InputError when `path` exists.
void require_new_file(const std::filesystem::path& path);

/// The inputs that decide the bytes of a file of vectors.
struct VectorJob {
  std::string model;    ///< checksum of the weights and the tokenizer
  std::string options;  ///< all options, as text
  std::string texts;    ///< checksum of all texts
  VectorMatrix matrix;
};

/// Writes vectors as they are computed: PATH.partial and, beside it, PATH.partial.json: the job,
/// and how much of it is done. Both are durable after each add(). finish() makes PATH of them. A
/// later writer of the same job goes on where the last add() ended.
class VectorWriter {
 public:
  /// Throws an InputError when PATH exists, when another process writes it, and when PATH.partial
  /// is damaged or belongs to another model, other options or other texts.
  VectorWriter(const std::filesystem::path& path, VectorJob job);
  ~VectorWriter();

  /// The vectors that are written.
  std::int64_t done() const { return done_; }
  /// All vectors of the job.
  std::int64_t rows() const { return job_.matrix.rows; }
  /// Appends the vectors [n, width] f32 of n examples. Throws an InputError for a number that f16
  /// does not hold.
  void add(std::span<const Example> examples, const Tensor& vectors);
  /// Gives the file its name. All rows must be written.
  void finish();

 private:
  class File;
  bool resume();
  void append(std::span<const std::byte> bytes);
  void save_state();

  std::filesystem::path state_path_;
  VectorJob job_;
  VectorFormat format_;
  std::unique_ptr<File> file_;
  std::int64_t done_ = 0, bytes_ = 0;
  Checksum checksum_;  // of the bytes behind the header
};

}  // namespace nystrom
