// Saving, finding and removing checkpoints, with damaged checkpoints and interrupted saves.
#include "train/state/checkpoint.h"
#include "train/state/run_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/random.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"
#include "train/state/optimizer_files.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

void save(CheckpointFolder& folder, std::int64_t step, std::optional<std::int64_t> best = {}) {
  folder.save(step,
              {CheckpointFolder::text_file("state.json", "{}"),
               CheckpointFolder::text_file("weights", "weights of step " + std::to_string(step))},
              100);
  folder.remove_old(step, best ? std::vector{*best} : std::vector<std::int64_t>{});
}

/// Flips a bit of a file.
void damage(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const char first = static_cast<char>(file.get() ^ 1);
  file.seekp(0);
  file.put(first);
}

class CheckpointTest : public ::testing::Test {
 protected:
  TemporaryFolder temporary_;
  fs::path path_ = temporary_.path() / "checkpoints";
  CheckpointFolder folder_{path_, 3};

  std::optional<std::int64_t> newest() {
    passed_over_.clear();
    return newest_checkpoint(path_, passed_over_);
  }
  std::vector<std::string> passed_over_;
};

TEST_F(CheckpointTest, ARangeOfTheOptimizersStateIsRead) {
  ParameterStore store;
  for (const char* name : {"a", "b"}) Scope(store).parameter(name, {16});
  const Tensor moments = random_normal({32}, 1).cast(DType::f32);
  write_safetensors(temporary_ / "optimizer.safetensors",
                    tensors_of(store, {0, 32}, {{"moment1", moments}}));
  write_bytes(temporary_ / checkpoint_manifest, R"({"files": {"optimizer.safetensors": {}}})");
  const Tensor own = Tensor::zeros({16}, DType::f32);
  read_optimizer_files(temporary_.path(), store, {16, 32}, {{"moment1", own}});
  EXPECT_EQ(own.to_doubles(), moments.slice(0, 16, 32).to_doubles());
}

TEST_F(CheckpointTest, TheNewestIsFound) {
  EXPECT_EQ(newest(), std::nullopt);
  save(folder_, 9);
  save(folder_, 10);
  EXPECT_EQ(newest(), 10);
  EXPECT_TRUE(passed_over_.empty());
}

TEST_F(CheckpointTest, TheNewestAndTheBestStay) {
  for (std::int64_t step = 1; step <= 6; ++step) save(folder_, step, 2);
  EXPECT_EQ(names_in(path_),
            (std::vector<std::string>{"latest", "step-2", "step-4", "step-5", "step-6"}));
}

TEST_F(CheckpointTest, ADamagedOneIsPassedOverWithTheReason) {
  save(folder_, 1);
  save(folder_, 2);
  damage(folder_.path_of(2) / "weights");
  EXPECT_EQ(newest(), 1);
  ASSERT_EQ(passed_over_.size(), 1u);
  expect_says(passed_over_[0], "step-2: passed over: weights has checksum ");
}

TEST_F(CheckpointTest, EveryFlippedBitAndTruncationIsFound) {
  save(folder_, 1);
  save(folder_, 2);
  for (const std::string& name : names_in(path_ / "step-2")) {
    const fs::path file = path_ / "step-2" / name;
    const std::string whole = read_bytes(file);
    for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      write_bytes(file, damaged);
      ASSERT_EQ(newest(), 1) << name << ", bit " << bit;
    }
    // The last line end of a manifest has no meaning.
    const std::size_t needed = name == "MANIFEST.json" ? whole.size() - 1 : whole.size();
    for (std::size_t size = 0; size < needed; ++size) {
      write_bytes(file, whole.substr(0, size));
      ASSERT_EQ(newest(), 1) << name << ", cut to " << size;
    }
    write_bytes(file, whole);
    ASSERT_EQ(newest(), 2);
  }
}

TEST_F(CheckpointTest, FilesOfAnotherAreFound) {
  for (const std::int64_t step : {1, 2, 3}) save(folder_, step);
  fs::rename(path_ / "step-3", path_ / "step-4");
  EXPECT_EQ(newest(), 2);
  EXPECT_EQ(passed_over_, std::vector<std::string>{(path_ / "step-4").string() +
                                                   ": passed over: MANIFEST.json is of step 3"});
  fs::copy_file(path_ / "step-1" / "weights", path_ / "step-2" / "weights",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(newest(), 1);
}

TEST_F(CheckpointTest, AShortFileOrAMissingOneIsPassedOver) {
  save(folder_, 1);
  save(folder_, 2);
  save(folder_, 3);
  fs::resize_file(folder_.path_of(3) / "weights", 3);
  fs::remove(folder_.path_of(2) / "state.json");
  EXPECT_EQ(newest(), 1);
  EXPECT_EQ(passed_over_.size(), 2u);
}

TEST_F(CheckpointTest, AnOldOneStaysWhileTheNewerOnesAreDamaged) {
  CheckpointFolder two(path_, 2);
  save(two, 1);
  save(two, 2);
  damage(two.path_of(2) / "weights");
  save(two, 3);
  EXPECT_TRUE(fs::exists(two.path_of(1)));
}

TEST_F(CheckpointTest, AFailedSaveLeavesTheOldOnesAndNothingElse) {
  save(folder_, 1);
  const auto broken = [](const fs::path&) -> std::string { throw InputError("no space left"); };
  EXPECT_THROW(
      folder_.save(2, {CheckpointFolder::text_file("state.json", "{}"), {"weights", broken}}, 100),
      InputError);
  EXPECT_EQ(names_in(path_), (std::vector<std::string>{"latest", "step-1"}));
  EXPECT_EQ(newest(), 1);
}

TEST_F(CheckpointTest, AWriteThatFailsOnceIsDoneAnew) {
  int calls = 0;
  const auto once = [&](const fs::path& path) {
    if (++calls == 1) throw InputError("cannot make durable");
    return CheckpointFolder::text_file("weights", "x").write(path);
  };
  folder_.save(1, {{"weights", once}}, 100);
  EXPECT_EQ(newest(), 1);
}

TEST_F(CheckpointTest, AChecksumOfOtherBytesIsNotAcknowledged) {
  const auto lying = [](const fs::path& path) {
    CheckpointFolder::text_file("weights", "x").write(path);
    return std::string(32, '0');
  };
  EXPECT_THROW(folder_.save(1, {{"weights", lying}}, 100), InputError);
  EXPECT_EQ(newest(), std::nullopt);
}

TEST_F(CheckpointTest, WhatAKilledSaveDidNotRemoveGoesLater) {
  CheckpointFolder generous(path_, 10);
  for (const std::int64_t step : {1, 2, 3, 4, 5}) save(generous, step);
  folder_.remove_old(5, {1});
  EXPECT_EQ(names_in(path_),
            (std::vector<std::string>{"latest", "step-1", "step-3", "step-4", "step-5"}));
}

TEST_F(CheckpointTest, RollingBackRemovesWhatIsLater) {
  for (const std::int64_t step : {1, 2, 3}) save(folder_, step);
  folder_.roll_back(1);
  EXPECT_EQ(names_in(path_), (std::vector<std::string>{"latest", "step-1"}));
  EXPECT_EQ(read_bytes(path_ / "latest"), "step-1\n");
}

TEST_F(CheckpointTest, TheNewestUpToAStepIsFound) {
  for (const std::int64_t step : {1, 5, 9}) save(folder_, step);
  std::vector<std::string> passed_over;
  EXPECT_EQ(newest_checkpoint(path_, passed_over, 8), 5);
  EXPECT_EQ(newest_checkpoint(path_, passed_over, 5), 5);
  EXPECT_EQ(newest_checkpoint(path_, passed_over, 0), std::nullopt);
  EXPECT_TRUE(passed_over.empty());
}

TEST_F(CheckpointTest, LeftoversGo) {
  save(folder_, 1);
  for (const char* own :
       {"step-2.tmp-0123456789abcdef", ".trash-0123456789abcdef", "latest.tmp-0123456789abcdef"})
    fs::create_directory(path_ / own);
  const std::vector<std::string> others = {".trash-bin", "notes.replaced", "step-2.tmp-old",
                                           "step-x.tmp-0123456789abcdef"};
  for (const std::string& name : others) fs::create_directory(path_ / name);
  folder_.remove_leftovers();
  std::vector<std::string> expected = {"latest", "step-1"};
  expected.insert(expected.end(), others.begin(), others.end());
  std::ranges::sort(expected);
  EXPECT_EQ(names_in(path_), expected);
}

TEST_F(CheckpointTest, ACheckpointWithFilesOfTheUserStays) {
  for (const std::int64_t step : {1, 2, 3, 4}) save(folder_, step);
  CheckpointFolder generous(path_, 10);
  save(generous, 5);
  write_bytes(path_ / "step-4" / "notes.txt", "mine");
  save(generous, 6);
  folder_.remove_old(6, {});
  EXPECT_EQ(names_in(path_), (std::vector<std::string>{"latest", "step-4", "step-5", "step-6"}));
}

TEST_F(CheckpointTest, FilesOfTheUserAreSetAsideWhereTheirStepIsWrittenOrRolledBack) {
  for (const std::int64_t step : {1, 2}) save(folder_, step);
  write_bytes(path_ / "step-1" / "notes.txt", "mine");
  write_bytes(path_ / "step-2" / "notes.txt", "mine too");
  save(folder_, 1);
  folder_.roll_back(1);
  EXPECT_EQ(names_in(path_),
            (std::vector<std::string>{"latest", "step-1", "step-1.with-other-files",
                                      "step-2.with-other-files"}));
  EXPECT_EQ(read_bytes(path_ / "step-1.with-other-files" / "notes.txt"), "mine");
}

TEST_F(CheckpointTest, WithoutAManifestAllFilesAreThoseOfTheUser) {
  for (const std::int64_t step : {1, 2}) save(folder_, step);
  fs::remove(path_ / "step-1" / "MANIFEST.json");
  write_bytes(path_ / "step-1" / "weights", "mine");
  write_bytes(path_ / "step-2" / "MANIFEST.json", "{");
  save(folder_, 1);
  folder_.roll_back(1);
  EXPECT_EQ(names_in(path_),
            (std::vector<std::string>{"latest", "step-1", "step-1.with-other-files",
                                      "step-2.with-other-files"}));
  EXPECT_EQ(read_bytes(path_ / "step-1.with-other-files" / "weights"), "mine");
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  save(folder_, 1);
  damage(folder_.path_of(1) / "weights");
  save(folder_, 1);
  EXPECT_EQ(newest(), 1);
}

TEST_F(CheckpointTest, SavingAStepAgainKeepsTheFirstSaveUntilTheSecondIsWhole) {
  save(folder_, 1);
  const auto broken = [](const fs::path&) -> std::string { throw InputError("no space left"); };
  EXPECT_THROW(folder_.save(1, {{"weights", broken}}, 100), InputError);
  folder_.remove_leftovers();  // the next start does this
  EXPECT_EQ(newest(), 1);
  EXPECT_EQ(read_bytes(folder_.path_of(1) / "weights"), "weights of step 1");
}

TEST_F(CheckpointTest, AReplacedOneWithoutSuccessorCountsAndGetsItsNameBack) {
  save(folder_, 1);
  save(folder_, 2);
  fs::rename(path_ / "step-2", path_ / "step-2.replaced");  // a crash here
  EXPECT_EQ(newest(), 2);
  EXPECT_EQ(folder_.path_of(2), path_ / "step-2.replaced");
  folder_.remove_leftovers();
  EXPECT_EQ(names_in(path_), (std::vector<std::string>{"latest", "step-1", "step-2"}));
}

TEST_F(CheckpointTest, AReplacedOneGoesOnceItHasASuccessor) {
  save(folder_, 1);
  fs::copy(path_ / "step-1", path_ / "step-1.replaced");
  EXPECT_EQ(checkpoint_steps(path_), std::vector<std::int64_t>{1});
  EXPECT_EQ(folder_.path_of(1), path_ / "step-1");
  folder_.remove_leftovers();
  EXPECT_EQ(names_in(path_), (std::vector<std::string>{"latest", "step-1"}));
}

TEST_F(CheckpointTest, WithoutSpaceNothingIsWritten) {
  EXPECT_THROW(
      folder_.save(1, {CheckpointFolder::text_file("weights", "x")}, std::int64_t{1} << 60),
      InputError);
  EXPECT_TRUE(names_in(path_).empty());
}

TEST_F(CheckpointTest, ASecondTrainerIsRefused) {
  const RunLock first(temporary_.path());
  try {
    const RunLock second(temporary_.path());
    FAIL() << "expected a refusal";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()), temporary_.path().string() +
                                             ": another process trains in this run directory; wait "
                                             "for it, or choose another run_dir");
  }
}

}  // namespace
}  // namespace nystrom::testing
