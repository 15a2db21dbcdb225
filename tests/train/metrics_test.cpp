// The records of a run.
#include "train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/train/temporary_folder.h"
#include "train/progress.h"

namespace nystrom::testing {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

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

TEST(MetricsLog, WritesOneObjectALine) {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder.path(), 0, false);
    log.write(1, {{"loss", 2.5}, {"grad_norm", std::nan("")}});
    log.write(2, {{"loss", 2.25}});
  }
  EXPECT_EQ(content_of(folder.path() / "metrics.jsonl"), "{\"step\":1,\"loss\":2.5,\"grad_norm\":null}\n{\"step\":2,\"loss\":2.25}\n");
}

TEST(MetricsLog, AResumedRunForgetsWhatItWillComputeAgain) {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder.path(), 0, false);
    for (std::int64_t step = 1; step <= 3; ++step) log.write(step, {{"loss", 1}});
  }
  std::ofstream(folder.path() / "metrics.jsonl", std::ios::app) << "{\"step\":4,\"lo";  // killed while writing
  MetricsLog(folder.path(), 2, false).write(3, {{"loss", 2}});
  EXPECT_EQ(content_of(folder.path() / "metrics.jsonl"),
            "{\"step\":1,\"loss\":1.0}\n{\"step\":2,\"loss\":1.0}\n{\"step\":3,\"loss\":2.0}\n");
}

TEST(MetricsLog, AResumedRunForgetsWhatIsNoRecord) {
  const TemporaryFolder folder;
  write_bytes(folder / "metrics.jsonl", "{\"step\":1}\n{\"step\":\"1\"}\n{\"loss\":1}\n[1]\n{\"step\":2}\n");
  MetricsLog(folder.path(), 2, false);
  EXPECT_EQ(content_of(folder / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(MetricsLog, TensorBoardFramesHoldTheirLengths) {
  const TemporaryFolder folder;
  MetricsLog(folder.path(), 0, true).write(7, {{"loss", 0.5}});
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) bytes = content_of(entry.path());
  }
  std::size_t at = 0, records = 0;
  while (at < bytes.size()) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    at += 8 + 4 + length + 4;  // length, its checksum, the event, its checksum
    ++records;
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_EQ(records, 2u) << "the file's version and one summary";
}

TEST(Progress, WritesDurations) {
  EXPECT_EQ(format_duration(5), "0:05");
  EXPECT_EQ(format_duration(3723), "1:02:03");
}

}  // namespace
}  // namespace nystrom::testing
