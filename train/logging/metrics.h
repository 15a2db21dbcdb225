// What a run records: one JSON object a line, and TensorBoard events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/logging/log.h"

namespace nystrom {

/// Names and values of one record, in order.
using Metrics = std::vector<std::pair<std::string, double>>;

/// What steps give since the last record, one after another. A step alone says little: losses and
/// speeds jump.
class StepMeans {
 public:
  /// Takes up a step. One that does not follow the last one starts anew: the run went back to a
  /// checkpoint.
  void add(std::int64_t step, double loss, std::optional<double> accuracy, std::int64_t tokens,
           double seconds);
  void clear() { *this = {}; }

  /// Of the steps whose loss is finite; NaN without any.
  double loss() const { return loss_ / static_cast<double>(finite_); }
  /// Nothing where steps tell none.
  std::optional<double> accuracy() const;
  double tokens_per_second() const { return static_cast<double>(tokens_) / seconds_; }

 private:
  std::int64_t last_ = 0, finite_ = 0, tokens_ = 0;
  double loss_ = 0, seconds_ = 0;
  std::optional<double> accuracy_;
};

/// A file to which whole records are appended. A full disk costs records, never the run: one that
/// cannot be written leaves nothing behind and is warned of, once until one is written again.
class RecordFile {
 public:
  /// Opens the file, creating it when absent. InputError when that fails. `log` outlives it.
  RecordFile(std::filesystem::path path, Log& log);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  void append(std::string_view record);

 private:
  std::filesystem::path path_;
  Log& log_;
  int descriptor_;
  bool warned_ = false;
};

/// Scalars in TensorBoard's file format (TFRecord framing of Event messages), one file a process.
class TensorBoardWriter {
 public:
  /// As RecordFile's.
  TensorBoardWriter(const std::filesystem::path& folder, Log& log);
  void write(std::int64_t step, const Metrics& metrics);

 private:
  RecordFile file_;
};

/// The name of a run's record of what its model makes of a few texts, a line an evaluation
/// (train/pretrain/mask_samples.h).
inline constexpr const char* mask_samples_file = "fill-masks.jsonl";

/// A file of a run with a JSON object of a step a line.
class RecordLog {
 public:
  /// Continues the file after `resumed_step`: rolls back to it. `log` outlives it.
  RecordLog(std::filesystem::path path, std::int64_t resumed_step, Log& log);
  /// Removes the records of steps after `last_step`, which are about to be computed again.
  /// InputError when that fails.
  void roll_back(std::int64_t last_step);
  /// Appends a line, without its end, as RecordFile does.
  void write(const std::string& line);

 private:
  std::filesystem::path path_;
  Log& log_;
  std::optional<RecordFile> file_;
};

/// `metrics.jsonl` of a run, and its TensorBoard events when wanted.
class MetricsLog {
 public:
  /// As RecordLog.
  MetricsLog(const std::filesystem::path& run_dir, std::int64_t resumed_step, bool tensorboard,
             Log& log);
  /// As RecordLog's.
  void roll_back(std::int64_t last_step) { records_.roll_back(last_step); }
  /// Appends {"step": …, metrics…}; not-a-number and infinity become null. What cannot be written
  /// is left out, as RecordFile does.
  void write(std::int64_t step, const Metrics& metrics);

 private:
  RecordLog records_;
  std::optional<TensorBoardWriter> tensorboard_;
};

}  // namespace nystrom
