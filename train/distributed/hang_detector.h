// Detects the process that hangs. There is no heartbeat: a rank that waits for half of the limit
// writes a file with the number of its operation, and then every rank that waits does. The rank
// without a file hangs, or the one with the lowest number. As long as no rank waits long, no file
// is written. Communicator::wait asks the detector, and Communicator::TimeLimit makes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace nystrom {

/// The detector of one process. It watches collective operations.
class HangDetector {
 public:
  /// `folder` is shared by all processes. Rank 0 removes files that an older run left there.
  /// `limit_seconds` is the time limit of an operation, and `name_of` names a rank in messages.
  HangDetector(std::filesystem::path folder, int rank, int size, double limit_seconds,
               std::function<std::string(int rank)> name_of);
  ~HangDetector();
  HangDetector(const HangDetector&) = delete;
  HangDetector& operator=(const HangDetector&) = delete;

  /// Called repeatedly while this process waits for collective operation number `operation`;
  /// `seconds` is the time waited so far. Returns a message once the wait exceeds the limit and
  /// this process is the one to report. The lowest waiting rank reports first, the others two
  /// seconds later.
  std::optional<std::string> waiting(std::int64_t operation, double seconds);
  /// Called when the wait has ended. Removes this process's file.
  void answered();

 private:
  std::filesystem::path file_of(int rank) const;
  std::string verdict() const;
  int lowest_waiting() const;

  std::filesystem::path folder_;
  int rank_, size_;
  double limit_;
  std::function<std::string(int rank)> name_of_;
  std::optional<std::int64_t> written_;  // the operation that this process's file names
  double asked_at_ = 0;   // seconds that this process had waited when it wrote its file
  bool present_ = false;  // whether this process's file may exist
};

}  // namespace nystrom
