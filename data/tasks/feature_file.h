// Feature sequences in HDF5 files, as h5py and the HDF5 library write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nystrom {

/// A file with, at its root:
///   features  [samples, steps, width] f32 or f64
///   lengths   [samples] integers, optional: the valid steps of each sample, from 1; without it all
///   are labels    [samples] integers from 0, optional: classes; or values    [samples] f32 or f64,
///   optional: numbers to predict
/// Sizes, types and lengths are checked when it is opened, features as they are read. Safe to use
/// from several threads.
class FeatureFile {
 public:
  /// InputError naming the file for one that is no such file. Error of `labels` and `values` both.
  explicit FeatureFile(const std::filesystem::path& file);
  ~FeatureFile();
  FeatureFile(FeatureFile&&) noexcept;
  FeatureFile& operator=(FeatureFile&&) noexcept;

  std::int64_t samples() const;
  std::int64_t steps() const;
  std::int64_t width() const;
  /// Valid steps of a sample.
  std::int64_t length(std::int64_t sample) const;
  /// All of them, or none where the file has none.
  const std::vector<std::int64_t>& labels() const;
  const std::vector<double>& values() const;
  const std::filesystem::path& path() const;

  /// Fills `features` with the first length(sample) · width numbers of the sample. InputError
  /// naming file, sample, step and column for a number that is not finite.
  void read(std::int64_t sample, std::span<float> features) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nystrom
