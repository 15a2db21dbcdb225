// The reader reads back the files of the writer.
#include "data/hdf5/hdf5.h"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>

#include <csignal>
#include <numeric>

#include "core/rng.h"
#include "tests/support/array_file.h"
#include "tests/support/temporary_folder.h"

/// The library leaks a buffer when a full disk makes closing a file fail.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace nystrom {
namespace {

template <class T>
std::vector<T> values_of(std::size_t count, std::uint64_t seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(mix64(seed + i));
  return values;
}

template <class T>
void write_array(Hdf5Writer& file, const std::string& name, StoredInteger type,
                 const std::vector<T>& values, std::int64_t chunk_rows, std::int64_t max_rows) {
  file.add(name, type, chunk_rows, max_rows);
  // The pieces do not match chunks.
  for (std::size_t at = 0; at < values.size(); at += 1000) {
    file.append(name, std::as_bytes(std::span(values).subspan(
                          at, std::min<std::size_t>(1000, values.size() - at))));
  }
}

template <class T>
std::vector<T> read_array(const Hdf5File& file, const std::string& name, StoredInteger type) {
  const Hdf5Array array = file.find(name, 0).value();
  EXPECT_EQ(array.type(), name_of(type));
  EXPECT_TRUE(array.is_complete());
  std::vector<T> values(static_cast<std::size_t>(array.shape().at(0)));
  array.read(0, type, std::as_writable_bytes(std::span(values)));
  return values;
}

using Hdf5 = FolderTest;

/// Also infinities, NaNs and denormal numbers keep their bits.
TEST_F(Hdf5, GivesHalfPrecisionNumbersAsTheyAre) {
  const hid_t half = testing::half_type();
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  for (const H5T_order_t order : {H5T_ORDER_LE, H5T_ORDER_BE}) {
    H5Tset_order(half, order);
    const hid_t file =
        H5Fcreate((folder_ / "x.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t sizes[] = {256, 256};
    const hid_t space = H5Screate_simple(2, sizes, nullptr),
                set = H5Dcreate2(file, "x", half, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (order == H5T_ORDER_BE)
      for (std::uint16_t& bits : all) bits = static_cast<std::uint16_t>(bits << 8 | bits >> 8);
    H5Dwrite(set, half, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data());
    H5Dclose(set);
    H5Sclose(space);
    H5Fclose(file);
    const Hdf5File read(std::make_shared<const InputFile>(InputFile::open(folder_ / "x.h5")));
    const Hdf5Array array = read.find("x", 0).value();
    EXPECT_TRUE(array.is_half());
    std::vector<f16> halves(65536);
    array.read(std::vector<std::int64_t>{0, 0}, array.shape(), std::span(halves));
    for (std::size_t i = 0; i < halves.size(); ++i) ASSERT_EQ(halves[i].bits, i);
    std::vector<std::uint16_t> integers(4);
    EXPECT_THROW(array.read(0, StoredInteger::u16, std::as_writable_bytes(std::span(integers))),
                 Error);  // two axes
  }
  H5Tclose(half);
}

TEST_F(Hdf5, RefusesMoreRowsThanAnnounced) {
  Hdf5Writer file(folder_ / "x.h5");
  file.add("x", StoredInteger::u8, 4, 10);
  EXPECT_NO_THROW(file.append("x", std::as_bytes(std::span("123456789"))));
  EXPECT_THROW(file.append("x", std::as_bytes(std::span("1"))), Error);
}

TEST_F(Hdf5, ReadsBackEveryTypeAndPlace) {
  {
    Hdf5Writer file(folder_ / "x.h5");
    write_array(file, "bytes", StoredInteger::u8, values_of<std::uint8_t>(5000, 1), 512, 5000);
    write_array(file, "shorts", StoredInteger::u16, values_of<std::uint16_t>(15000, 2), 10, 40000);
    write_array(file, "ints", StoredInteger::u32, values_of<std::uint32_t>(3, 3), 4096, 3);
    write_array(file, "longs", StoredInteger::u64, values_of<std::uint64_t>(12345, 4), 1000, 12345);
    write_array(file, "empty", StoredInteger::u64, std::vector<std::uint64_t>{}, 64, 1 << 20);
    file.commit();
  }
  const Hdf5File file(std::make_shared<const InputFile>(InputFile::open(folder_ / "x.h5")));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"bytes", "empty", "ints", "longs", "shorts"}));
  EXPECT_FALSE(file.find("other", 0).has_value());
  EXPECT_EQ(read_array<std::uint8_t>(file, "bytes", StoredInteger::u8),
            values_of<std::uint8_t>(5000, 1));
  EXPECT_EQ(read_array<std::uint16_t>(file, "shorts", StoredInteger::u16),
            values_of<std::uint16_t>(15000, 2));
  EXPECT_EQ(read_array<std::uint32_t>(file, "ints", StoredInteger::u32),
            values_of<std::uint32_t>(3, 3));
  EXPECT_EQ(read_array<std::uint64_t>(file, "longs", StoredInteger::u64),
            values_of<std::uint64_t>(12345, 4));
  EXPECT_TRUE(read_array<std::uint64_t>(file, "empty", StoredInteger::u64).empty());
  const auto all = values_of<std::uint64_t>(12345, 4);
  const Hdf5Array longs = file.find("longs", 0).value();
  EXPECT_EQ(longs.chunk_rows(), 1000);
  for (const auto& [first, count] : {std::pair(999, 2), std::pair(12344, 1), std::pair(12345, 0),
                                     std::pair(1000, 1000), std::pair(0, 12345)}) {
    std::vector<std::uint64_t> part(static_cast<std::size_t>(count));
    longs.read(first, StoredInteger::u64, std::as_writable_bytes(std::span(part)));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first));
  }
  std::vector<std::byte> two(16);
  EXPECT_THROW(longs.read(12344, StoredInteger::u64, two), Error);
  EXPECT_THROW(longs.read(-1, StoredInteger::u64, two), Error);
}

TEST_F(Hdf5, SameContentSameBytes) {
  for (const char* name : {"a.h5", "b.h5"}) {
    Hdf5Writer file(folder_ / name);
    write_array(file, "x", StoredInteger::u16, values_of<std::uint16_t>(12345, 7), 1000, 1 << 20);
    file.commit();
  }
  EXPECT_EQ(read_bytes(folder_ / "a.h5"), read_bytes(folder_ / "b.h5"));
}

TEST_F(Hdf5, LeavesNothingUnlessCommitted) {
  {
    Hdf5Writer file(folder_ / "x.h5");
    write_array(file, "x", StoredInteger::u16, values_of<std::uint16_t>(12345, 7), 1000, 1 << 20);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.h5"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Hdf5, NamesWhatCannotBeWritten) {
  EXPECT_EQ(error_in_dir([&] { Hdf5Writer file(folder_ / "absent/x.h5"); }),
            "DIR/absent/x.h5: cannot create: No such file or directory");
}

TEST_F(Hdf5, AFullDiskIsAnErrorThatLeavesNothing) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  // A limit on the size of files simulates a full disk.
  for (const rlim_t limit : {100u, 5000u, 30000u, 60000u}) {
    const rlimit small{limit, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string message = error_in_dir([&] {
      Hdf5Writer file(folder_ / "x.h5");
      write_array(file, "x", StoredInteger::u32, values_of<std::uint32_t>(100000, 7), 1000,
                  1 << 20);
      file.commit();
    });
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_TRUE(message.starts_with("DIR/x.h5: cannot ") && message.ends_with(": File too large"))
        << message;
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  }
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace nystrom
