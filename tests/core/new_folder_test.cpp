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

TEST(FreePlace, NamesAFolderThatCannotBeOpened) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string message = testing::message_of([&] { require_empty_target(folder.path()); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(message, folder.path().string() + ": cannot open the folder: Too many open files");
}

}  // namespace
}  // namespace nystrom
