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
