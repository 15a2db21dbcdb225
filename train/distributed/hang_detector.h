// Who is missing when processes wait too long for one another: those that wait write a file each,
// and the one without a file is it. Nothing is written as long as nobody waits long.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace nystrom {

class HangDetector {
 public:
  /// `folder` is seen by all processes. The first one removes what an older run left there.
  HangDetector(std::filesystem::path folder, int rank, int size, double limit_seconds,
               std::function<std::string(int rank)> name_of);
  ~HangDetector();
  HangDetector(const HangDetector&) = delete;
  HangDetector& operator=(const HangDetector&) = delete;

  /// To be called every moment while waiting for operation number `operation` of those that all do,
  /// for `seconds` by now. What is wrong, once it is too long and this process is the one to tell:
  /// the others give it two seconds before they do.
  std::optional<std::string> waiting(std::int64_t operation, double seconds);
  /// The wait came to its end.
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
  double asked_at_ = 0;                  // how long this process had waited then
  bool present_ = false;                 // whether there may be that file
};

}  // namespace nystrom
