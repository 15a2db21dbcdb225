// Files of vectors, written as they are computed. An interrupted file is completed later.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "core/tensor.h"
#include "train/objectives/partial_file.h"
#include "train/objectives/vector_format.h"

namespace nystrom {

/// What decides the bytes of a file of vectors.
struct VectorJob {
  std::string model;    ///< checksum of the weights and the tokenizer
  std::string options;  ///< all options, as text
  std::string texts;    ///< checksum of all texts
  VectorMatrix matrix;
};

/// Writes PATH.partial and, beside it, PATH.partial.json: the job, and how much of it is done. Both
/// are durable after each add(). finish() makes PATH of them. A later writer of the same job goes
/// on where the last add() ended.
class VectorWriter {
 public:
  /// Throws an InputError when PATH exists, when another process writes it, and when PATH.partial
  /// belongs to another model, other options or other texts.
  VectorWriter(std::filesystem::path path, VectorJob job);

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
  bool resume();
  void save_state();

  std::filesystem::path state_path_;
  VectorJob job_;
  VectorFormat format_;
  PartialFile file_;
  std::int64_t done_ = 0, bytes_ = 0;
};

/// `vectors` [n, width] f32 rounded to `dtype`, f16 or f32. Throws an InputError for a number that
/// f16 does not hold.
Tensor rounded_vectors(const Tensor& vectors, DType dtype);

}  // namespace nystrom
