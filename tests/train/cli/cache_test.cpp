// The cache of tokenizers and shards: its listing, and the entries that pruning keeps.
#include "train/objectives/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/support/program_test.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

class CacheTest : public ProgramTest {
 protected:
  CacheTest() {
    for (const std::string& entry : others_) fs::create_directories(folder_ / entry);
    write_bytes(folder_ / "tokens-00000000000000aa/notes.txt", "mine");
    for (const std::string& entry : {a_, b_, c_})
      write_bytes(folder_ / entry / "train" / "index.json", "12345");
  }
  std::vector<std::string> with_others(std::vector<std::string> entries) const {
    entries.insert(entries.end(), others_.begin(), others_.end());
    std::ranges::sort(entries);
    return entries;
  }

  const std::string a_ = "tokens-0123456789abcdef", b_ = "tokenizer-00112233445566ff",
                    c_ = "tokens-fedcba9876543210.tmp-0123456789abcdef";
  /// Folders of the user, whose names only look like those of entries, or which hold other files.
  const std::vector<std::string> others_ = {"other", "tokens-backup", "tokenizer-german",
                                            "tokens-0123456789abcdef.old",
                                            "tokens-00000000000000aa"};
};

TEST_F(CacheTest, TellsItsEntriesTheLastUsedFirst) {
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(folder_ / a_, now - std::chrono::hours(1));
  fs::last_write_time(folder_ / b_, now - std::chrono::hours(2));
  fs::last_write_time(folder_ / c_, now - std::chrono::hours(3));
  const CacheUse use(folder_ / b_);  // makes it the last used
  const auto entries = cache_entries(folder_.path());
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].path, folder_ / b_);
  EXPECT_TRUE(entries[0].in_use);
  EXPECT_EQ(entries[1].path, folder_ / a_);
  EXPECT_FALSE(entries[1].in_use);
  EXPECT_EQ(entries[1].bytes, 5);
  EXPECT_EQ(entries[2].path, folder_ / c_);
}

TEST_F(CacheTest, PruningSparesWhatIsInUseAndWhatIsNotItsOwn) {
  auto use = std::make_unique<CacheUse>(folder_ / a_);
  EXPECT_EQ(prune_cache(folder_.path()).size(), 2u);
  EXPECT_EQ(names_in(folder_.path()), with_others({a_}));
  use.reset();
  EXPECT_EQ(prune_cache(folder_.path()).size(), 1u);
  EXPECT_EQ(names_in(folder_.path()), with_others({}));
}

TEST_F(CacheTest, TheCommandTellsAndPrunes) {
  EXPECT_EQ(nlohmann::json::parse(run("cache . --json").out).at("entries").size(), 3u);
  EXPECT_TRUE(run("cache . --prune").out.ends_with(".: 3 entries, 0.0 KB removed\n")) << last_.out;
  EXPECT_EQ(names_in(folder_.path()), with_others({}));
}

/// Equal rows that one call gives twice are files of their own, since a run reads a file once.
TEST_F(CacheTest, PrunesRowsThatWereGivenTwice) {
  for (const char* name : {"rows.jsonl", "rows-1.jsonl", "rows-2.jsonl.tmp-0123456789abcdef"})
    write_bytes(folder_ / "rows-0123456789abcdef" / name, "{}\n");
  EXPECT_EQ(prune_cache(folder_.path()).size(), 4u);
  EXPECT_EQ(names_in(folder_.path()), with_others({}));
}

TEST_F(CacheTest, ANameThatIsNoUtf8IsEscapedInJson) {
  fs::create_directory(folder_ / "caf\xe9");
  const auto json = nlohmann::json::parse(run("cache 'caf\xe9' --json").out);
  EXPECT_EQ(json.at("folder"), "caf\\xe9");
}

}  // namespace
}  // namespace nystrom::testing
