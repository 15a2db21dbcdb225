// The cache of tokenizers and shards: its listing, and the entries that pruning keeps.
#include "train/pretrain/cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tests/support/run_program.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() {
    for (const char* entry : {"tokens-a", "tokenizer-b", "tokens-c.tmp-0123", "other"}) {
      fs::create_directories(folder_ / entry / "train");
      write_bytes(folder_ / entry / "train" / "file", "12345");
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(CacheTest, TellsItsEntriesTheLastUsedFirst) {
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(folder_ / "tokens-a", now - std::chrono::hours(1));
  fs::last_write_time(folder_ / "tokenizer-b", now - std::chrono::hours(2));
  fs::last_write_time(folder_ / "tokens-c.tmp-0123", now - std::chrono::hours(3));
  const CacheUse use(folder_ / "tokenizer-b");  // makes it the last used
  const auto entries = cache_entries(folder_.path());
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].path, folder_ / "tokenizer-b");
  EXPECT_TRUE(entries[0].in_use);
  EXPECT_EQ(entries[1].path, folder_ / "tokens-a");
  EXPECT_FALSE(entries[1].in_use);
  EXPECT_EQ(entries[1].bytes, 5);
  EXPECT_EQ(entries[2].path, folder_ / "tokens-c.tmp-0123");
}

TEST_F(CacheTest, PruningSparesWhatIsInUseAndWhatIsNotItsOwn) {
  auto use = std::make_unique<CacheUse>(folder_ / "tokens-a");
  EXPECT_EQ(prune_cache(folder_.path()).size(), 2u);
  EXPECT_EQ(names(), (std::vector<std::string>{"other", "tokens-a"}));
  use.reset();
  EXPECT_EQ(prune_cache(folder_.path()).size(), 1u);
  EXPECT_EQ(names(), std::vector<std::string>{"other"});
}

TEST_F(CacheTest, TheCommandTellsAndPrunes) {
  const Outcome told = run_program(folder_, "cache . --json");
  EXPECT_EQ(nlohmann::json::parse(told.out).at("entries").size(), 3u) << told.err;
  const Outcome pruned = run_program(folder_, "cache . --prune");
  EXPECT_TRUE(pruned.out.ends_with(".: 3 entries, 0.0 KB removed\n")) << pruned.out;
  EXPECT_EQ(names(), std::vector<std::string>{"other"});
}

TEST_F(CacheTest, AFolderThatIsNotThereIsNamed) {
  const Outcome outcome = run_program(folder_, "cache absent");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "nystrom: absent: no such folder; name the one that data.cache of your runs names\n");
}

}  // namespace
}  // namespace nystrom::testing
