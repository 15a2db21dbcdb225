// Feature sequences in HDF5 files of h5py and the HDF5 library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/checksum.h"
#include "data/hdf5/hdf5.h"

namespace nystrom {

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
  /// `values` is an error.
  explicit FeatureFile(std::filesystem::path file);

  /// The number of samples.
  std::int64_t samples() const { return features_.shape()[0]; }
  /// The number of steps.
  std::int64_t steps() const { return features_.shape()[1]; }
  /// The width of the features.
  std::int64_t width() const { return features_.shape()[2]; }
  /// The number of valid steps of a sample.
  std::int64_t length(std::int64_t sample) const;
  /// The labels of all samples; empty if the file has none.
  const std::vector<std::int64_t>& labels() const { return labels_; }
  /// The values of all samples; empty if the file has none.
  const std::vector<double>& values() const { return values_; }
  /// The path of the file.
  const std::filesystem::path& path() const { return path_; }

  /// Fills `features` with the first steps of the sample, at most length(sample). Throws an
  /// InputError for a non-finite number, with file, sample, step and column.
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

/// A hash of a sample's valid features.
Digest digest_of(const FeatureFile& file, std::int64_t sample);

}  // namespace nystrom
