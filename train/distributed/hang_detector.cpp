#include "train/distributed/hang_detector.h"

#include <fstream>
#include <limits>
#include <vector>

#include "core/base/long_list.h"
#include "core/check.h"

namespace nystrom {

namespace fs = std::filesystem;

HangDetector::HangDetector(fs::path folder, int rank, int size, double limit_seconds,
                           std::function<std::string(int)> name_of)
    : folder_(std::move(folder)),
      rank_(rank),
      size_(size),
      limit_(limit_seconds),
      name_of_(std::move(name_of)) {
  std::error_code ignored;
  if (rank_ == 0) fs::remove_all(folder_, ignored);
}

HangDetector::~HangDetector() { answered(); }

fs::path HangDetector::file_of(int rank) const { return folder_ / fmt::format("rank-{}", rank); }

std::optional<std::string> HangDetector::waiting(std::int64_t operation, double seconds) {
  std::error_code ignored;
  // A rank writes its file as soon as another rank waits. So a rank that began to wait late is not
  // reported as hanging.
  if (written_ != operation && (seconds >= limit_ / 2 || fs::exists(folder_, ignored))) {
    present_ = true;
    fs::create_directories(folder_, ignored);
    std::ofstream file(file_of(rank_));
    file << operation << std::flush;
    if (file.good()) {  // otherwise the next call retries
      written_ = operation;
      asked_at_ = seconds;
    }
  }
  constexpr double patience = 2;
  // The others have half of the limit to write their files, whenever this file was written.
  if (written_ == operation && seconds < asked_at_ + limit_ / 2) return std::nullopt;
  if (seconds < limit_ || (lowest_waiting() != rank_ && seconds < limit_ + patience))
    return std::nullopt;
  present_ = false;  // the file stays, because other ranks may still read it
  return verdict();
}

void HangDetector::answered() {
  if (!present_) return;
  std::error_code ignored;
  fs::remove(file_of(rank_), ignored);
  fs::remove(folder_, ignored);  // succeeds for the last file
  written_.reset();
  present_ = false;
}

int HangDetector::lowest_waiting() const {
  std::error_code ignored;
  for (int rank = 0; rank < size_; ++rank) {
    if (fs::exists(file_of(rank), ignored)) return rank;
  }
  return rank_;
}

std::string HangDetector::verdict() const {
  std::vector<std::string> missing, behind;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (int rank = 0; rank < size_; ++rank) {
    std::int64_t operation = 0;
    if (std::ifstream file(file_of(rank)); !(file >> operation)) {
      missing.push_back(name_of_(rank));
      continue;
    }
    if (operation < least) behind.clear();
    least = std::min(least, operation);
    most = std::max(most, operation);
    if (operation == least) behind.push_back(name_of_(rank));
  }
  constexpr std::string_view advice =
      "all processes end; the same command goes on from the last checkpoint";
  if (!missing.empty())
    return fmt::format("no answer from {} within {:g} seconds (training.timeout); {}",
                       long_list(missing), limit_, advice);
  if (least < most)
    return fmt::format("{} did not come along within {:g} seconds (training.timeout); {}",
                       long_list(behind), limit_, advice);
  return fmt::format(
      "all processes wait for each other, and nothing arrives within {:g} seconds "
      "(training.timeout): is the network between them down? {}",
      limit_, advice);
}

}  // namespace nystrom
