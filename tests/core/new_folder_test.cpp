#include "core/base/new_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <iterator>

#include "tests/support/closed_input.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

TEST(NewFolder, IsMadeWithoutStandardInput) {
  const TemporaryFolder parent;
  const testing::ClosedInput closed;
  NewFolder(parent / "new").commit();
  EXPECT_EQ(fs::directory_iterator(parent.path())->path().filename(), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(parent.path()), {}), 1);
}

TEST(NewFolder, RemovesOnlyLeftoversOfItsOwn) {
  const TemporaryFolder parent;
  const auto add = [&](const std::string& name, const char* file) {
    fs::create_directory(parent / name);
    if (file) write_bytes(parent / name / file, "x");
    return parent / name;
  };
  const fs::path leftover = add("new.tmp-0123456789abcdef", unfinished_mark),
                 empty = add("new.tmp-0123456789abcde0", nullptr);
  const std::vector<fs::path> others = {
      add("new.tmp-keep", unfinished_mark), add("new.tmp-0123456789abcde1", "mine"),
      add("old.tmp-0123456789abcdef", unfinished_mark), add("new.tmp-0123456789ABCDEF", "mine")};
  fs::create_directory_symlink(others[2], parent / "new.tmp-0123456789abcde2");
  NewFolder(parent / "new").commit();
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_FALSE(fs::exists(empty));
  for (const fs::path& path : others) EXPECT_FALSE(fs::is_empty(path)) << path;
  EXPECT_TRUE(fs::is_symlink(parent / "new.tmp-0123456789abcde2"));
  EXPECT_TRUE(fs::is_empty(parent / "new"));
}

TEST(NewFolder, KeepsThePermissionsOfTheOneThatItReplaces) {
  const TemporaryFolder parent;
  fs::create_directory(parent / "new");
  fs::permissions(parent / "new", fs::perms(0710));
  NewFolder folder(parent / "new");
  EXPECT_EQ(fs::status(folder.path()).permissions(), fs::perms(0710));
  folder.commit();
  EXPECT_EQ(fs::status(parent / "new").permissions(), fs::perms(0710));
}

/// The message of the Error that f throws where nothing can be opened.
template <class F>
std::string message_without_descriptors(const F& f) {
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string message = testing::message_of(f);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  return message;
}

TEST(NewFolder, SaysWhyItCannotBeLocked) {
  const TemporaryFolder parent;
  EXPECT_EQ(message_without_descriptors([&] { NewFolder folder(parent / "new"); }),
            (parent / "new").string() + ": cannot lock: Too many open files");
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

TEST(FreePlace, NamesAFolderThatCannotBeOpened) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_without_descriptors([&] { require_empty_target(folder.path()); }),
            folder.path().string() + ": cannot open the folder: Too many open files");
}

TEST(FreePlace, IsNotTheCurrentFolder) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_EQ(testing::message_of([&] { require_empty_target("."); }),
            ".: is the current folder, which would be replaced; name a new folder");
  fs::current_path(before);
}

TEST(FreePlace, IsNoLinkToNowhere) {
  const TemporaryFolder folder;
  fs::create_symlink("nowhere", folder.path() / "link");
  EXPECT_EQ(testing::message_of([&] { require_empty_target(folder.path() / "link"); }),
            (folder.path() / "link").string() +
                ": is a link to a folder that does not exist; name a new one");
}

}  // namespace
}  // namespace nystrom
