// Reading of files of vectors (train/objectives/vector_format.h).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "core/tensor.h"
#include "train/objectives/vector_format.h"

namespace nystrom {

/// Vectors of neighbouring rows.
struct VectorBlock {
  Tensor vectors;  ///< [n, width] f32 on the CPU
  /// jsonl: the texts, with their ids; otherwise empty.
  std::vector<Example> examples{};
};

/// Reads a file from its beginning to its end, in the memory of a block.
class VectorReader {
 public:
  virtual ~VectorReader() = default;
  /// At most `rows` further vectors; nothing after the last. Throws an InputError "FILE: …" for
  /// damage, and for numbers that are not finite.
  virtual std::optional<VectorBlock> next(std::int64_t rows) = 0;
};

/// Opens a file of vectors in f16, bf16, f32 or f64 (rounded to f32). Throws an InputError for a
/// file of another form.
std::unique_ptr<VectorReader> open_vectors(const std::filesystem::path& path);

/// Whether a file holds vectors: by its ending, and for .jsonl by its first line.
bool holds_vectors(const std::filesystem::path& path);

}  // namespace nystrom
