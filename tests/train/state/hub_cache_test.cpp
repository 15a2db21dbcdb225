#include "train/state/other_models.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// A cache with the model me/tiny, whose branch main is at commit bb22.
class HubCache : public ::testing::Test {
 protected:
  HubCache() {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
      ::unsetenv(name);
    for (const char* commit : {"aa11", "bb22"})
      fs::create_directories(model_ / "snapshots" / commit);
    write_bytes(model_ / "refs/main", "bb22");
    ::setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
  }
  ~HubCache() override { ::unsetenv("HF_HUB_CACHE"); }

  const TemporaryFolder folder_;
  const fs::path model_ = folder_ / "models--me--tiny";
};

TEST_F(HubCache, ANameIsTheSnapshotOfMain) {
  EXPECT_EQ(find_in_hub_cache("me/tiny"), model_ / "snapshots/bb22");
}

TEST_F(HubCache, AModelMayBeAbsent) {
  EXPECT_EQ(find_in_hub_cache("me/other"), std::nullopt);
  write_bytes(model_ / "refs/main", "cc33");  // fetched in part
  EXPECT_EQ(find_in_hub_cache("me/tiny"), std::nullopt);
}

TEST_F(HubCache, ACommitCannotLeadOutOfTheCache) {
  for (const char* commit : {"../aa11", "/", "", "..", "."}) {
    write_bytes(model_ / "refs/main", commit);
    EXPECT_EQ(find_in_hub_cache("me/tiny"), std::nullopt) << commit;
  }
}

TEST_F(HubCache, TheVariablesOfTheHubSayWhereItIs) {
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(hub_cache(), "/home/me/.cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(hub_cache(), "/caches/huggingface/hub");
  ::setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(hub_cache(), "/home/me/hf/hub");
  ::setenv("HF_HUB_CACHE", "/models", 1);
  EXPECT_EQ(hub_cache(), "/models");
  for (const char* name : {"HF_HOME", "XDG_CACHE_HOME"}) ::unsetenv(name);
}

TEST(HubNames, HaveOneSlashOrNone) {
  for (const char* name : {"bert-base-uncased", "uw-madison/nystromformer-512", "a/b.c_d-1"})
    EXPECT_TRUE(is_hub_name(name)) << name;
  for (const char* name : {"", "/a", "a/", "a/b/c", "./a", "../a", "a b", "a/..", "~/a", "a/.b"})
    EXPECT_FALSE(is_hub_name(name)) << name;
}

}  // namespace
}  // namespace nystrom
