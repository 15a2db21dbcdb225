// What a run records: one JSON object a line, and TensorBoard events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nystrom {

/// Names and values of one record, in order.
using Metrics = std::vector<std::pair<std::string, double>>;

/// What steps give since the last record, one after another. A step alone says little: losses and speeds jump.
class StepMeans {
 public:
  /// Takes up a step. One that does not follow the last one starts anew: the run went back to a checkpoint.
  void add(std::int64_t step, double loss, std::optional<double> accuracy, std::int64_t tokens, double seconds);
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

/// Scalars in TensorBoard's file format (TFRecord framing of Event messages), one file a process.
class TensorBoardWriter {
 public:
  explicit TensorBoardWriter(const std::filesystem::path& folder);
  void write(std::int64_t step, const Metrics& metrics);

 private:
  void write_record(const std::string& event);
  std::ofstream file_;
};

/// A file of a run with a JSON object of a step a line.
class RecordLog {
 public:
  /// Continues the file after `resumed_step`: rolls back to it.
  RecordLog(std::filesystem::path path, std::int64_t resumed_step);
  /// Removes the records of steps after `last_step`, which are about to be computed again.
  void roll_back(std::int64_t last_step);
  /// Appends a line, without its end. InputError when it cannot be written.
  void write(const std::string& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

/// `metrics.jsonl` of a run, and its TensorBoard events when wanted.
class MetricsLog {
 public:
  /// As RecordLog.
  MetricsLog(const std::filesystem::path& run_dir, std::int64_t resumed_step, bool tensorboard);
  /// As RecordLog's.
  void roll_back(std::int64_t last_step) { records_.roll_back(last_step); }
  /// Appends {"step": …, metrics…}; not-a-number and infinity become null. InputError when it cannot be written.
  void write(std::int64_t step, const Metrics& metrics);

 private:
  RecordLog records_;
  std::optional<TensorBoardWriter> tensorboard_;
};

}  // namespace nystrom
