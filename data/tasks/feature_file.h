// Feature sequences in HDF5 files of h5py and the HDF5 library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/checksum.h"

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
  explicit FeatureFile(const std::filesystem::path& file);
  ~FeatureFile();
  FeatureFile(FeatureFile&&) noexcept;
  FeatureFile& operator=(FeatureFile&&) noexcept;

  /// The number of samples.
  std::int64_t samples() const;
  /// The number of steps.
  std::int64_t steps() const;
  /// The width of the features.
  std::int64_t width() const;
  /// The number of valid steps of a sample.
  std::int64_t length(std::int64_t sample) const;
  /// The labels of all samples; empty if the file has none.
  const std::vector<std::int64_t>& labels() const;
  /// The values of all samples; empty if the file has none.
  const std::vector<double>& values() const;
  /// The path of the file.
  const std::filesystem::path& path() const;

  /// Fills `features` with the first length(sample) · width numbers of the sample. Throws an
  /// InputError for a non-finite number, with file, sample, step and column.
  void read(std::int64_t sample, std::span<float> features) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A hash of a sample's valid features.
Digest digest_of(const FeatureFile& file, std::int64_t sample);

}  // namespace nystrom
