// Records of a run: one JSON object a line, and TensorBoard events.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/file_io.h"
#include "core/base/log.h"

namespace nystrom {

/// Names and values of one record, in order.
using Metrics = std::vector<std::pair<std::string, double>>;

/// Names of metrics on held-out data begin with it.
inline constexpr std::string_view validation_prefix = "validation_";

/// Means over the steps since the last record. Loss and speed of single steps vary too much to be
/// useful.
class StepMeans {
 public:
  /// Adds a step. If it does not follow the last one, because the run rolled back to a checkpoint,
  /// the means start anew. `accuracy` is null for objectives without one; `tokens` and `seconds`
  /// are the step's.
  void add(std::int64_t step, double loss, std::optional<double> accuracy, std::int64_t tokens,
           double seconds);
  void clear() { *this = {}; }

  /// The mean over the steps with a finite loss; NaN without any.
  double loss() const { return finite_ > 0 ? loss_ / static_cast<double>(finite_) : NAN; }
  /// The mean accuracy; nothing if the steps have none.
  std::optional<double> accuracy() const;
  /// Tokens of all steps divided by their seconds.
  double tokens_per_second() const { return static_cast<double>(tokens_) / seconds_; }

 private:
  std::int64_t last_ = 0, finite_ = 0, tokens_ = 0;
  double loss_ = 0, seconds_ = 0;
  std::optional<double> accuracy_;
};

/// A file of a run's records, to read; not open if absent, or a FIFO, which would block.
std::ifstream open_records(const std::filesystem::path& path);

/// A file to which whole records are appended. A full disk loses records but never stops the run. A
/// record that cannot be written leaves no partial line. The log gets one warning until a record is
/// written again.
class RecordFile {
 public:
  /// Opens the file, and creates it if absent. With `resumed_step` it rolls the file back. Throws
  /// an InputError when that fails. `log` must outlive this object.
  RecordFile(std::filesystem::path path, Log& log, std::optional<std::int64_t> resumed_step = {});

  /// Removes records, JSON objects one a line, whose "step" is after `last_step`, and those of
  /// evaluations after `last_evaluation`: they are computed again. Throws an InputError when that
  /// fails.
  void roll_back(std::int64_t last_step, std::int64_t last_evaluation);
  /// Appends one record, or warns.
  void append(std::string_view record);

 private:
  std::filesystem::path path_;
  Log& log_;
  Descriptor descriptor_;
  bool warned_ = false;
};

/// The name of the file that records masked-token predictions for a few texts, one line an
/// evaluation (train/objectives/fill_mask.h).
inline constexpr const char* mask_samples_file = "fill-masks.jsonl";

/// The `metrics.jsonl` of a run, and if enabled its scalars in TensorBoard's format (TFRecord
/// framing of Event messages), one file a process.
class MetricsLog {
 public:
  /// Opens metrics.jsonl and rolls it back to `resumed_step`; the file of TensorBoard is made with
  /// its first record. Throws and warns as RecordFile.
  MetricsLog(const std::filesystem::path& run_dir, std::int64_t resumed_step, bool tensorboard,
             Log& log);
  /// Removes records, as RecordFile does; TensorBoard passes over those after `last_step`.
  void roll_back(std::int64_t last_step, std::int64_t last_evaluation);
  /// Appends {"step": …, metrics…}. NaN and infinity become null. Records that cannot be written
  /// are left out, as by RecordFile.
  void write(std::int64_t step, const Metrics& metrics);

 private:
  void begin_session();

  RecordFile records_;
  std::filesystem::path run_dir_;
  Log& log_;
  bool tensorboard_;
  std::int64_t last_step_;            // before this session
  std::optional<RecordFile> events_;  // of TensorBoard
};

}  // namespace nystrom
