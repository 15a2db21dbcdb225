// The records of a run.
#include "train/loop/metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "core/base/progress.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

TEST(StepMeans, AreOverTheStepsSinceTheyWereCleared) {
  StepMeans means;
  means.add(1, 4, 0.5, 100, 1);
  means.add(2, 2, 0.25, 300, 1);
  EXPECT_EQ(means.loss(), 3);
  EXPECT_EQ(means.accuracy(), 0.375);
  EXPECT_EQ(means.tokens_per_second(), 200) << "of the time, not the mean of the steps' own speeds";
  means.clear();
  means.add(3, 1, std::nullopt, 10, 0.5);
  EXPECT_EQ(means.loss(), 1);
  EXPECT_EQ(means.accuracy(), std::nullopt);
  EXPECT_EQ(means.tokens_per_second(), 20);
}

TEST(StepMeans, LeaveLossesOutThatAreNotFinite) {
  StepMeans means;
  means.add(1, 4, 0.5, 100, 1);
  means.add(2, std::nan(""), 0.0, 100, 3);
  EXPECT_EQ(means.loss(), 4);
  EXPECT_EQ(means.accuracy(), 0.5);
  EXPECT_EQ(means.tokens_per_second(), 50);
  means.clear();
  means.add(3, INFINITY, std::nullopt, 100, 1);
  EXPECT_TRUE(std::isnan(means.loss()));
}

TEST(StepMeans, StartAnewWhereTheRunGoesBack) {
  StepMeans means;
  means.add(7, 4, std::nullopt, 100, 1);
  means.add(6, 2, std::nullopt, 50, 1);
  EXPECT_EQ(means.loss(), 2);
  EXPECT_EQ(means.tokens_per_second(), 50);
}

/// Limits every file of this process to `bytes` during its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

class MetricsLogTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Log log_{true};
};

TEST_F(MetricsLogTest, WritesOneObjectALine) {
  {
    MetricsLog records(folder_.path(), 0, false, log_);
    records.write(1, {{"loss", 2.5}, {"grad_norm", std::nan("")}});
    records.write(2, {{"loss", 2.25}});
  }
  EXPECT_EQ(read_bytes(folder_.path() / "metrics.jsonl"),
            "{\"step\":1,\"loss\":2.5,\"grad_norm\":null}\n{\"step\":2,\"loss\":2.25}\n");
}

TEST_F(MetricsLogTest, AResumedRunForgetsWhatItWillComputeAgain) {
  {
    MetricsLog records(folder_.path(), 0, false, log_);
    for (std::int64_t step = 1; step <= 3; ++step) records.write(step, {{"loss", 1}});
  }
  std::ofstream(folder_.path() / "metrics.jsonl", std::ios::app)
      << "{\"step\":4,\"lo";  // killed while writing
  MetricsLog(folder_.path(), 2, false, log_).write(3, {{"loss", 2}});
  EXPECT_EQ(read_bytes(folder_.path() / "metrics.jsonl"),
            "{\"step\":1,\"loss\":1.0}\n{\"step\":2,\"loss\":1.0}\n{\"step\":3,\"loss\":2.0}\n");
}

/// A run that was stopped before an evaluation, resumed, and killed after it, evaluates again.
TEST_F(MetricsLogTest, AnEvaluationIsForgottenAlone) {
  MetricsLog records(folder_.path(), 0, false, log_);
  for (std::int64_t step = 1; step <= 2; ++step) {
    records.write(step, {{"loss", 1}});
    records.write(step, {{"validation_loss", 3}});
  }
  records.roll_back(2, 1);
  EXPECT_EQ(read_bytes(folder_.path() / "metrics.jsonl"),
            "{\"step\":1,\"loss\":1.0}\n{\"step\":1,\"validation_loss\":3.0}\n"
            "{\"step\":2,\"loss\":1.0}\n");
}

TEST_F(MetricsLogTest, AResumedRunForgetsWhatIsNoRecord) {
  write_bytes(folder_ / "metrics.jsonl",
              "{\"step\":1}\n{\"step\":\"1\"}\n{\"loss\":1}\n[1]\n{\"step\":2}\n");
  MetricsLog(folder_.path(), 2, false, log_);
  EXPECT_EQ(read_bytes(folder_ / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

/// Like a full disk: the first record fits, the next two do not, and later there is space again.
TEST_F(MetricsLogTest, WhatDoesNotFitIsLeftOutAndToldOnce) {
  const std::string name(1000, 'x'), first = "{\"step\":1,\"" + name + "\":2.5}\n";
  MetricsLog records(folder_.path(), 0, false, log_);
  records.write(1, {{name, 2.5}});
  ::testing::internal::CaptureStderr();
  {
    const FileSizeLimit limit(first.size() + 5);
    for (const std::int64_t step : {2, 3}) records.write(step, {{"loss", 2.5}});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: " + (folder_ / "metrics.jsonl").string() +
                ": cannot write: File too large; the run goes on without recording\n");
  records.write(4, {{"loss", 2.5}});
  EXPECT_EQ(read_bytes(folder_ / "metrics.jsonl"), first + "{\"step\":4,\"loss\":2.5}\n");
}

/// Where the disk is full when a run resumes, its old records stay, and no step is told twice.
TEST_F(MetricsLogTest, WhatCannotBeForgottenEndsRecordingAlone) {
  {
    MetricsLog records(folder_.path(), 0, false, log_);
    for (const std::int64_t step : {1, 2, 3}) records.write(step, {{std::string(1000, 'x'), 2.5}});
  }
  const std::string before = read_bytes(folder_ / "metrics.jsonl");
  ::testing::internal::CaptureStderr();
  {
    const FileSizeLimit limit(1500);
    MetricsLog(folder_.path(), 2, false, log_).write(3, {{"loss", 1.5}});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: " + (folder_ / "metrics.jsonl").string() +
                ": cannot write: File too large; the run goes on without recording\n");
  EXPECT_EQ(read_bytes(folder_ / "metrics.jsonl"), before);
}

TEST_F(MetricsLogTest, TensorBoardFramesHoldTheirLengths) {
  {
    MetricsLog records(folder_.path(), 0, true, log_);
    records.write(7, {{"loss", 0.5}});
    records.roll_back(3, 3);
  }
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      bytes = read_bytes(entry.path());
  }
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7fK\"", 12))
      << "24 bytes, and the checksum of that, as in TensorFlow's own files";
  std::size_t at = 0, records = 0;
  while (at < bytes.size()) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    at += 8 + 4 + length + 4;  // length, its checksum, the event, its checksum
    ++records;
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_EQ(records, 4u) << "the file's version, a session, one summary, and a session";
  const std::string again({0x10, 4, 0x3a, 2, 8, 1});  // step 4; session_log {status: START}
  EXPECT_EQ(bytes.substr(bytes.size() - 4 - again.size(), again.size()), again);
}

TEST_F(MetricsLogTest, TensorBoardReadsTheNewestEventsLastThoughTheClockWasSetBack) {
  const std::string earlier = "events.out.tfevents.4000000000.1.nystrom";
  write_bytes(folder_ / earlier, "");
  write_bytes(folder_ / "events.out.tfevents.99999999999999999999.other", "");
  const auto own = folder_ / fmt::format("events.out.tfevents.4000000001.{}.nystrom", ::getpid());
  MetricsLog log(folder_.path(), 0, true, log_);
  EXPECT_FALSE(std::filesystem::exists(own)) << "a run that has nothing to do leaves no file";
  log.write(1, {{"loss", 1}});
  EXPECT_TRUE(std::filesystem::exists(own));
}

TEST(Progress, WritesDurations) {
  EXPECT_EQ(format_duration(5), "0:05");
  EXPECT_EQ(format_duration(3723), "1:02:03");
}

}  // namespace
}  // namespace nystrom::testing
