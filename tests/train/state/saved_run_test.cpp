// The settings of the run that a run directory holds.

#include <gtest/gtest.h>

#include "core/base/file_io.h"
#include "tests/support/errors.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config_io.h"
#include "train/state/run_folder.h"

namespace nystrom::testing {
namespace {

class SavedRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.run_dir = (folder_ / "run").string();
    make_folders(config_.run_dir);
    const RunLock mark(config_.run_dir);
  }
  std::string settings() const { return read_bytes(folder_ / "run" / "config.yaml"); }
  void add_checkpoint() const { make_folders(folder_ / "run" / "checkpoints" / "step-1"); }

  TemporaryFolder folder_;
  RunConfig config_;
};

TEST_F(SavedRunTest, ANewRunWritesItsSettings) {
  write_settings(config_, read_saved_run(config_.run_dir));
  EXPECT_EQ(settings(), to_yaml(config_));
}

TEST_F(SavedRunTest, NotesOfAUserStay) {
  const std::string noted = "# the good one\n" + to_yaml(config_);
  write_bytes(folder_ / "run" / "config.yaml", noted);
  write_settings(config_, read_saved_run(config_.run_dir));
  EXPECT_EQ(settings(), noted);
}

TEST_F(SavedRunTest, DamagedSettingsAreReplacedWithoutCheckpoints) {
  write_bytes(folder_ / "run" / "config.yaml", "seed: [");
  write_settings(config_, read_saved_run(config_.run_dir));
  EXPECT_EQ(settings(), to_yaml(config_));
}

TEST_F(SavedRunTest, DamagedSettingsOfCheckpointsAreRefused) {
  write_bytes(folder_ / "run" / "config.yaml", "seed: soon\n");
  add_checkpoint();
  EXPECT_EQ(message_of([&] { read_saved_run(config_.run_dir); }),
            (folder_ / "run" / "config.yaml").string() +
                ":1:7: seed: got 'soon', expected a whole number at least 0");
}

TEST_F(SavedRunTest, CheckpointsTellTheSettings) {
  add_checkpoint();
  RunConfig of_checkpoint = config_;
  of_checkpoint.seed = 7;
  write_bytes(folder_ / "run" / "checkpoints" / "step-1" / "config.yaml", to_yaml(of_checkpoint));
  const std::string refusal = config_.run_dir +
                              ": holds a run with other settings; changed: seed (7, now 42); "
                              "choose another run_dir, or undo the changes";
  const auto compare = [&] { require_same_settings(config_, read_saved_run(config_.run_dir)); };
  EXPECT_EQ(message_of(compare), refusal) << "without config.yaml";
  write_bytes(folder_ / "run" / "config.yaml", to_yaml(config_));
  EXPECT_EQ(message_of(compare), refusal) << "with another";
}

TEST_F(SavedRunTest, TheSamePlaceInOtherWordsIsNoChange) {
  config_.start.from = "models/base/";
  config_.data.train = {TextSource::of_text("./text.txt"), TextSource::of_text("more/*.txt")};
  write_bytes(folder_ / "run" / "config.yaml", to_yaml(config_));
  add_checkpoint();
  config_.start.from = (std::filesystem::current_path() / "models/base").string();
  config_.data.train = {TextSource::of_text("text.txt"), TextSource::of_text("more/../more/*.txt")};
  const SavedRun saved = read_saved_run(config_.run_dir);
  EXPECT_EQ(message_of([&] { require_same_settings(config_, saved); }), "");
  const std::string link =
      "undo the changes (where files have moved, by a link at their old place)";
  config_.data.train = {TextSource::of_text("text.txt")};
  expect_hides(message_of([&] { require_same_settings(config_, saved); }), link);
  config_.data.train = {TextSource::of_text("/mnt/text.txt"), TextSource::of_text("more/*.txt")};
  expect_says(message_of([&] { require_same_settings(config_, saved); }), link);
}

/// Another process may train and end between the check of a run and its lock.
TEST_F(SavedRunTest, ARunThatCameInBetweenIsNotOverwritten) {
  const SavedRun before = read_saved_run(config_.run_dir);
  RunConfig other = config_;
  other.seed = 7;
  write_settings(other, before);
  const std::string refusal = config_.run_dir +
                              ": another process has trained in this run directory in the "
                              "meantime; start again";
  EXPECT_EQ(message_of([&] { write_settings(config_, before); }), refusal);
  const SavedRun after = read_saved_run(config_.run_dir);
  add_checkpoint();
  EXPECT_EQ(message_of([&] { write_settings(config_, after); }), refusal);
  EXPECT_EQ(settings(), to_yaml(other));
}

}  // namespace
}  // namespace nystrom::testing
