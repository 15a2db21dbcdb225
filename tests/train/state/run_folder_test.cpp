// What counts as the folder of a run or a sweep, and what may be removed from it.
#include "train/state/run_folder.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

const std::string digits = "0123456789abcdef";

class RunFolder : public ::testing::Test {
 protected:
  /// A file below the folder, with its parents.
  fs::path add(const std::string& name, const std::string& bytes = "mine") {
    const fs::path path = folder_ / name;
    write_bytes(path, bytes);
    return path;
  }
  /// The error of check_run_place without the folder's name.
  std::string problem(const std::string& name = "run") {
    const std::string place = (folder_ / name).string() + ": ";
    const std::string message = input_error([&] { check_run_place(folder_ / name); });
    return message.starts_with(place) ? message.substr(place.size()) : message;
  }

  TemporaryFolder folder_;
  const std::string foreign_ = "is not empty and holds no run; choose another run_dir";
};

TEST_F(RunFolder, ANewOrEmptyFolderIsAPlace) {
  EXPECT_EQ(problem(), "no error");
  fs::create_directory(folder_ / "run");
  EXPECT_EQ(problem(), "no error");
  add("run/.lock", "");  // a process that is about to write its mark
  EXPECT_EQ(problem(), "no error");
}

TEST_F(RunFolder, ItsCacheMayBeThereFirst) {
  const fs::path run = folder_ / "run";
  add("run/cache/tokens-0/train/index.json");
  add("run/tokenizer-0/tokenizer.json");
  EXPECT_EQ(problem(), foreign_);
  EXPECT_THROW(check_run_place(run, run / "cache"), InputError) << "tokenizer-0 is not in it";
  EXPECT_THROW(check_run_place(run, run), InputError) << "cache is no entry of it";
  fs::remove_all(run / "tokenizer-0");
  EXPECT_NO_THROW(check_run_place(run, run / "cache"));
  EXPECT_NO_THROW(check_run_place(run, run / "cache" / "below"));
}

TEST_F(RunFolder, NamesOfARunDoNotMakeOne) {
  for (const char* name : {"config.yaml", "metrics.jsonl", "log.txt", "checkpoints/step-4/weights",
                           "checkpoints/step-4/MANIFEST.json", "summary.json", "data.tmp-2024/x"}) {
    add(std::string("run/") + name);
    EXPECT_EQ(problem(), foreign_) << name;
    add("run/.lock", "");
    EXPECT_EQ(problem(), foreign_) << name;
    add("run/.lock", "4711\n");
    EXPECT_EQ(problem(), foreign_) << name;
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(RunFolder, TheLockMarksIt) {
  fs::create_directory(folder_ / "run");
  { const RunLock lock(folder_ / "run"); }
  add("run/notes.txt");
  EXPECT_EQ(problem(), "no error");
  { const RunLock again(folder_ / "run"); }
  EXPECT_EQ(problem(), "no error");
}

TEST_F(RunFolder, ACopyWithoutItsLockIsKnownByItsCheckpoints) {
  add("run/checkpoints/step-6/MANIFEST.json", R"({"format": 1, "step": 6, "files": {}})");
  EXPECT_EQ(problem(), "no error");
}

TEST_F(RunFolder, LinkedCheckpointsAreRefused) {
  add("run/.lock", "nystrom run\n");
  fs::create_directory(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "run" / "checkpoints");
  EXPECT_EQ(input_error([&] { check_run_place(folder_ / "run"); }),
            (folder_ / "run" / "checkpoints").string() +
                ": is a symbolic link, which is not followed here; put what it names in its place");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "place");
  EXPECT_EQ(problem("place"), "no error") << "the user names the run's folder";
}

TEST_F(RunFolder, OnlyUnfinishedFilesOfARunAreRemoved) {
  const std::vector<std::string> own = {"config.yaml.tmp-" + digits, "metrics.jsonl.tmp-" + digits,
                                        "test.json.tmp-" + digits};
  const std::vector<std::string> others = {
      "data.tmp-2024/x",     "config.yaml.tmp-2024",
      "notes.tmp-" + digits, "config.yaml.tmp-" + digits + "0",
      ".tmp-" + digits,      "metrics.jsonl.tmp-0123456789ABCDEF"};
  for (const std::string& name : own) add("run/" + name);
  for (const std::string& name : others) add("run/" + name);
  add("run/result.json.tmp-" + digits + "/x");  // a folder of that name
  const RunLock lock(folder_ / "run");
  for (const std::string& name : own) EXPECT_FALSE(fs::exists(folder_ / "run" / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ / "run" / name)) << name;
  EXPECT_TRUE(fs::exists(folder_ / "run" / ("result.json.tmp-" + digits) / "x"));
}

TEST_F(RunFolder, ANewOneIsRemovedWithNothingButItsLockAndLog) {
  for (const std::string kept : {"", "config.yaml", "checkpoints/step-1/x"}) {
    {
      const RunLock lock(folder_ / "run");
      add("run/log.txt");
      if (!kept.empty()) add("run/" + kept);
    }
    EXPECT_EQ(fs::exists(folder_ / "run" / ".lock"), !kept.empty()) << kept;
    EXPECT_EQ(fs::exists(folder_ / "run"), !kept.empty()) << kept;
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(RunFolder, ARunOfASweepIsWithinItsFolder) {
  add("sweep/rate=1/seed-3/x");
  add("sweep/seed-4/x");
  add("other/seed-5/x");
  fs::create_directory_symlink(folder_ / "other", folder_ / "sweep" / "away");
  const auto place = [&](bool options, const std::string& run_dir) {
    std::string found;
    const std::string error =
        input_error([&] { found = place_in_sweep(folder_ / "sweep", options, run_dir).string(); });
    return error == "no error" ? found : error.substr(folder_.path().string().size());
  };
  EXPECT_EQ(place(true, "rate=1/seed-3"), "rate=1/seed-3");
  EXPECT_EQ(place(true, "/where/it/was/rate=1/seed-3"), "rate=1/seed-3");
  EXPECT_EQ(place(false, "old/seed-4"), "seed-4");
  EXPECT_EQ(place(true, "away/seed-5"),
            "/sweep/away: is a symbolic link, which is not followed here; put what it names in its "
            "place");
  for (const char* wrong : {".", "", "..", "../other/seed-5", "rate=1", "sweep", "seed-9"})
    EXPECT_TRUE(place(false, wrong).starts_with("/sweep/summary.json: names the run ")) << wrong;
}

}  // namespace
}  // namespace nystrom
