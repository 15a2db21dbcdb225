// Files of features: HDF5 files with many sequences, of h5py and the HDF5 library, and files of one
// bag, with one row of numbers a patch, spectrum or time step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "core/tensor.h"
#include "data/hdf5/hdf5.h"

namespace nystrom {

/// The largest size of a feature: f32 must hold the sum of the squares of a row, and of what a
/// model's weights make of it.
inline constexpr float max_feature = 1e15F;

/// A file with these arrays at its root:
/// - features [samples, steps, width], f32 or f64
/// - lengths [samples], integers from 1, optional: the valid steps of each sample. Without it all
/// steps are valid.
/// - labels [samples], integers from 0, optional: classes
/// - values [samples], f32 or f64, optional: numbers to predict
///
/// Opening checks sizes, types and lengths; features are checked when they are read. Thread-safe.
class FeatureFile {
 public:
  /// Throws an InputError that names the file when it has another form. Having both `labels` and
  /// `values` is an error. Neither is read without `targets`, for predictions.
  explicit FeatureFile(std::filesystem::path file, bool targets = true);

  std::int64_t samples() const { return features_.shape()[0]; }
  std::int64_t steps() const { return features_.shape()[1]; }
  std::int64_t width() const { return features_.shape()[2]; }
  /// The number of valid steps of a sample.
  std::int64_t length(std::int64_t sample) const;
  /// The labels of all samples; empty if the file has none, or they are not read.
  const std::vector<std::int64_t>& labels() const { return labels_; }
  /// The values of all samples; empty if the file has none, or they are not read.
  const std::vector<double>& values() const { return values_; }
  const std::filesystem::path& path() const { return path_; }

  /// Fills `features` with the first steps of the sample, at most length(sample). Throws an
  /// InputError for a number that is not finite or beyond max_feature, with file, sample, step and
  /// column.
  void read(std::int64_t sample, std::span<float> features) const;

 private:
  Hdf5Array find_features() const;
  std::vector<double> column(const char* array_name, bool whole) const;
  std::vector<std::int64_t> whole_column(const char* array_name, std::int64_t smallest,
                                         std::int64_t largest) const;

  std::filesystem::path path_;
  Hdf5File file_;
  Hdf5Array features_;
  std::vector<std::int64_t> lengths_, labels_;
  std::vector<double> values_;
};

/// The array `features` of a file called `name`, with a cache of this size. Throws an InputError
/// without one.
Hdf5Array features_of(const Hdf5File& file, const std::string& name, std::int64_t cache_bytes);

/// Throws an InputError, without the file, if one of its `arrays` tells what is padding: of a `bag`
/// none is read, and of samples only `lengths`.
void refuse_masks(const std::vector<std::string>& arrays, bool bag);

/// A hash of a sample's valid features.
Digest digest_of(const FeatureFile& file, std::int64_t sample);

/// A small array of numbers that lies beside the features of a bag.
struct BagArray {
  std::vector<double> values;  ///< [rows, columns]
  std::int64_t columns = 0;
  bool whole = false;  ///< whether they are integers
};

/// A file with features [rows, width], or [1, rows, width], of f16, f32 or f64:
/// - .h5, .hdf5: the array `features`
/// - .npy: NumPy's array, in C order
/// - .safetensors: the tensor `features`, or the only one of such a shape; also bf16
///
/// All rows count: an array beside them that tells what is padding is refused (refuse_masks).
/// Opening checks form and size, and closes the file again. Reading opens it, and checks that it is
/// still the same and that its numbers are finite. Thread-safe.
class BagFile {
 public:
  /// Throws an InputError that names the file when it has another form.
  explicit BagFile(const std::filesystem::path& file);

  std::int64_t rows() const;
  std::int64_t width() const;
  /// The type in which features are read without a loss: f16, or f32 (f64 is rounded to it).
  DType dtype() const;
  const std::filesystem::path& path() const;

  /// Fills `features` [r, width], f32 or dtype(), which is contiguous and on the CPU, with the
  /// first r rows. Throws an InputError for a number that is not finite or beyond max_feature, with
  /// its row and column.
  void read(Tensor features) const;
  /// The array `coords` [rows, columns] of an HDF5 file, with at least 2 columns; nothing if it has
  /// none.
  std::optional<BagArray> coords() const;
  /// A hash of the shape and the rows, to find equal files: of more than 2^18 numbers, of 16 rows
  /// from all over the file, unless some of them are equal.
  Digest digest() const;
  /// Whether digest() may be that of 16 rows.
  bool is_large() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// Whether a file is a bag, where no table says so: .npy and .safetensors are; .h5 and .hdf5 if
/// their `features` are [rows, width]. For a run `without_labels` those of [1, rows, width] without
/// labels, values or lengths are bags too, and no samples (FeatureFile).
bool is_bag_file(const std::filesystem::path& file, bool without_labels = false);

}  // namespace nystrom
