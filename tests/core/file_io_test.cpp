#include "core/base/file_io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tests/support/closed_input.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

TEST(OutputFile, IsWrittenWithoutStandardInput) {
  const TemporaryFolder folder;
  const testing::ClosedInput closed;
  write_text_file(folder / "file", "text");
  EXPECT_EQ(read_bytes(folder / "file"), "text");
}

TEST(OutputFile, IsForEveryoneWhomTheUmaskAllows) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  write_text_file(folder / "file", "text");
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder / "file").permissions(), std::filesystem::perms(0666));
}

TEST(OutputFile, ReservesNoBytes) {
  const TemporaryFolder folder;
  EXPECT_EQ(input_error([&] { OutputFile(folder / "file").reserve(0); }), "no error");
}

TEST(SyncFolder, NamesAFolderThatIsAbsent) {
  const TemporaryFolder folder;
  EXPECT_EQ(input_error([&] { sync_folder(folder / "absent"); }),
            (folder / "absent").string() + ": cannot open the folder: No such file or directory");
}

TEST(InputFile, IsReadAndClosedWithoutStandardInput) {
  const TemporaryFolder folder;
  const std::string checksum = write_text_file(folder / "file", "text");
  const testing::ClosedInput closed;
  EXPECT_EQ(file_checksum(folder / "file"), checksum);
  EXPECT_TRUE(closed.is_still_closed());
}

TEST(InputFile, IsOpenedInsideAFolderWithoutStandardInput) {
  const TemporaryFolder folder;
  write_text_file(folder / "file", "text");
  const testing::ClosedInput closed;
  EXPECT_EQ(InputFile::open_inside(folder.path(), "file").size(), 4);
}

TEST(Descriptor, LeavesErrnoWhenItCloses) {
  {
    const Descriptor twice(::dup(STDERR_FILENO));
    ::close(twice.get());
    errno = ELOOP;
  }
  EXPECT_EQ(errno, ELOOP);
}

}  // namespace
}  // namespace nystrom
