#include "train/state/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

std::string header_length(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

/// The bytes of a file with this header and data.
std::string file_with(const std::string& header, const std::string& data = "") {
  return header_length(header.size()) + header + data;
}

/// The bytes of a file with one tensor "a".
std::string file_with(const std::string& dtype, const std::string& shape, const std::string& data) {
  return file_with("{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                       ",\"data_offsets\":[0," + std::to_string(data.size()) + "]}}",
                   data);
}

std::vector<NamedTensor> every_type() {
  return {{"f32", Tensor::from<float>({1.5f, -2, 3, 4, 5, 6}, {2, 3})},
          {"f64", Tensor::from<double>({0.1, 1e300}, {2})},
          {"bf16", Tensor::from<bf16>({bf16(1.5f), bf16(-3), bf16(7)}, {3, 1})},
          {"i64", Tensor::from<std::int64_t>({-1, std::numeric_limits<std::int64_t>::max()}, {2})},
          {"i32", Tensor::from<std::int32_t>({-7}, Shape{})},
          {"u8", Tensor::from<std::uint8_t>({0, 255, 7}, {1, 3})},
          {"empty", Tensor::from<float>(std::vector<float>{}, {0, 4})}};
}

TEST(Safetensors, EveryTypeSurvivesARoundTrip) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors", every_type());
  const auto file = TensorFile::open(folder / "a.safetensors");
  EXPECT_EQ(file.tensors().size(), every_type().size());
  // Without it transformers refuses the file.
  EXPECT_NE(read_bytes(folder / "a.safetensors").find(R"("format":"pt")"), std::string::npos);
  for (const NamedTensor& expected : every_type()) {
    ASSERT_TRUE(file.contains(expected.name));
    const Tensor got = file.read(expected.name);
    EXPECT_EQ(got.dtype(), expected.tensor.dtype()) << expected.name;
    EXPECT_EQ(got.shape(), expected.tensor.shape()) << expected.name;
    EXPECT_EQ(got.to_doubles(), expected.tensor.to_doubles()) << expected.name;
  }
}

TEST(Safetensors, TensorsLongerThanAChunkSurvive) {
  const TemporaryFolder folder;
  std::vector<float> values(700'001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  write_safetensors(folder / "a.safetensors", {{"a", Tensor::from(values, {700'001})}});
  const Tensor got = TensorFile::open(folder / "a.safetensors").read("a");
  EXPECT_TRUE(std::equal(values.begin(), values.end(), got.data<float>()));
}

TEST(Safetensors, LayoutIsByTypeThenName) {
  const TemporaryFolder folder;
  const Tensor one_f32 = Tensor::from<float>({1}, {1});
  const Tensor one_i64 = Tensor::from<std::int64_t>({1}, {1});
  write_safetensors(folder / "a.safetensors", {{"b", one_f32}, {"a", one_f32}, {"z", one_i64}});
  const auto file = TensorFile::open(folder / "a.safetensors");
  std::string order;
  for (const StoredTensor& tensor : file.tensors()) order += tensor.name;
  EXPECT_EQ(order, "zab");
}

TEST(Safetensors, HeaderIsPaddedToEightBytes) {
  const TemporaryFolder folder;
  for (int length = 1; length <= 8; ++length) {
    write_safetensors(
        folder / "a.safetensors",
        {{std::string(static_cast<std::size_t>(length), 'n'), Tensor::from<float>({1}, {1})}});
    EXPECT_EQ(read_bytes(folder / "a.safetensors").size() % 8, 4u);
  }
}

TEST(Safetensors, AFileWithoutTensorsIsRead) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", file_with("{}      "));
  EXPECT_TRUE(TensorFile::open(folder / "a").tensors().empty());
}

TEST(Safetensors, TensorsAreReadWhateverTheOrderOfTheHeader) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", file_with(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                                      R"("a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})",
                                      "\x01\x02"));
  const auto file = TensorFile::open(folder / "a");
  EXPECT_EQ(file.read("a").item(), 1);
  EXPECT_EQ(file.read("b").item(), 2);
}

TEST(Safetensors, HalfPrecisionBecomesF32) {
  const TemporaryFolder folder;
  // 1, -2, the largest, the smallest normal and subnormal values, infinity
  write_bytes(
      folder / "a",
      file_with("F16", "[6]", std::string("\x00\x3c\x00\xc0\xff\x7b\x00\x04\x01\x00\x00\x7c", 12)));
  const Tensor got = TensorFile::open(folder / "a").read("a");
  EXPECT_EQ(got.dtype(), DType::f32);
  EXPECT_EQ(got.to_doubles(),
            (std::vector<double>{1, -2, 65504, std::ldexp(1, -14), std::ldexp(1, -24), INFINITY}));
}

TEST(Safetensors, HalfPrecisionIsWrittenAsItIs) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {{"a", Tensor::from<f16>({f16(1.5f), f16(-65504)}, {2})}});
  const auto file = TensorFile::open(folder / "a");
  EXPECT_EQ(file.stored("a").dtype, DType::f16);
  EXPECT_EQ(file.read("a").to_doubles(), (std::vector<double>{1.5, -65504}));
}

TEST(Safetensors, BooleansBecomeBytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", file_with("BOOL", "[2]", std::string("\x00\x01", 2)));
  EXPECT_EQ(TensorFile::open(folder / "a").read("a").to_doubles(), (std::vector<double>{0, 1}));
}

TEST(Safetensors, NonFiniteValuesAreRefusedWhenAsked) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {{"a", Tensor::from<float>({1, 2, NAN, INFINITY}, {4})}});
  const auto file = TensorFile::open(folder / "a");
  EXPECT_EQ(file.read("a").numel(), 4);
  EXPECT_EQ(input_error([&] { file.read("a", NonFinite::refuse); }),
            (folder / "a").string() + ": tensor a is not finite at element 2");
}

TEST(Safetensors, AnAbsentTensorIsNamed) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {});
  EXPECT_EQ(input_error([&] { TensorFile::open(folder / "a").read("x\n"); }),
            (folder / "a").string() + ": has no tensor x\\x0a");
}

TEST(Safetensors, OnlyRegularFilesAreRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(input_error([&] { TensorFile::open(folder.path()); }),
            folder.path().string() + ": is not a regular file");
  EXPECT_EQ(input_error([&] { TensorFile::open(folder / "absent"); }),
            (folder / "absent").string() + ": cannot open: No such file or directory");
}

TEST(Safetensors, AFileThatShrinksWhileReadIsReported) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", file_with("U8", "[4]", "abcd"));
  const auto file = TensorFile::open(folder / "a");
  std::filesystem::resize_file(folder / "a", std::filesystem::file_size(folder / "a") - 1);
  EXPECT_EQ(
      input_error([&] { file.read("a"); }),
      (folder / "a").string() + ": ends at byte 64, 1 more expected: it changed while being read");
}

TEST(SafetensorsWriter, RefusesNamesThatCannotBeRead) {
  const TemporaryFolder folder;
  const Tensor one = Tensor::from<float>({1}, {1});
  EXPECT_THROW(write_safetensors(folder / "a", {{"a/b", one}}), Error);
  EXPECT_THROW(write_safetensors(folder / "a", {{"__metadata__", one}}), Error);
  EXPECT_THROW(write_safetensors(folder / "a", {{"a", one}, {"a", one}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItCannotFinish) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a/occupied");  // the final rename fails
  EXPECT_EQ(input_error([&] { write_safetensors(folder / "a", every_type()); }),
            (folder / "a").string() + ": cannot rename into place: Is a directory");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(SafetensorsWriter, ReplacesAnOlderFile) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  write_safetensors(folder / "a", every_type());
  EXPECT_EQ(TensorFile::open(folder / "a").tensors().size(), every_type().size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

constexpr std::size_t small_file_data = 163;

/// A file with checksums: 40 floats, 3 bytes, and an empty tensor whose wrong shape the data would
/// not reveal.
std::string small_file(const TemporaryFolder& folder) {
  std::vector<float> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 3;
  write_safetensors(folder / "small",
                    {{"weight", Tensor::from(values, {5, 8})},
                     {"ids", Tensor::from<std::uint8_t>({1, 2, 3}, {3})},
                     {"none", Tensor::from<float>(std::vector<float>{}, {0, 2})}});
  return read_bytes(folder / "small");
}

void read_everything(const std::filesystem::path& path) {
  const auto file = TensorFile::open(path);
  for (const StoredTensor& tensor : file.tensors()) file.read(tensor.name);
}

/// Whether the header of these bytes is accepted. The data are not read.
bool header_accepted(const std::string& bytes) {
  try {
    const auto size = static_cast<std::int64_t>(bytes.size());
    const std::int64_t length = safetensors_header_length(bytes.substr(0, 8), size);
    parse_safetensors_header(bytes.substr(8, static_cast<std::size_t>(length)), size - 8 - length);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

TEST(SafetensorsDamage, EveryOtherValueOfEveryByteOfTheHeaderIsDetected) {
  const TemporaryFolder folder;
  const std::string good = small_file(folder);
  ASSERT_TRUE(header_accepted(good));
  std::string bad = good;
  for (std::size_t i = 0; i < good.size() - small_file_data; ++i) {
    for (int change = 1; change < 256; ++change) {
      bad[i] = static_cast<char>(good[i] ^ change);
      if (!header_accepted(bad)) continue;
      // The change hit a checksum, so reading the data must fail.
      write_bytes(folder / "bad", bad);
      ASSERT_NE(input_error([&] { read_everything(folder / "bad"); }), "no error")
          << "byte " << i << " xor " << change;
    }
    bad[i] = good[i];
  }
}

TEST(SafetensorsDamage, EveryFlippedBitOfTheDataIsDetected) {
  const TemporaryFolder folder;
  const std::string good = small_file(folder);
  for (std::size_t i = good.size() - small_file_data; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    write_bytes(folder / "bad", bad);
    const std::string name = i < good.size() - 3 ? "weight" : "ids";
    ASSERT_EQ(input_error([&] { read_everything(folder / "bad"); }),
              (folder / "bad").string() + ": tensor " + name +
                  " is damaged: its checksum is not that in nystrom.integrity");
  }
}

TEST(SafetensorsDamage, TruncationAtEveryByteIsRefused) {
  const TemporaryFolder folder;
  const std::string good = small_file(folder);
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_bytes(folder / "bad", good.substr(0, length));
    ASSERT_NE(input_error([&] { read_everything(folder / "bad"); }), "no error") << length;
  }
}

TEST(SafetensorsDamage, AnAddedByteIsRefused) {
  const TemporaryFolder folder;
  write_bytes(folder / "bad", small_file(folder) + "x");
  EXPECT_EQ(input_error([&] { read_everything(folder / "bad"); }),
            (folder / "bad").string() + ": 1 bytes after the last tensor belong to no tensor");
}

}  // namespace
}  // namespace nystrom
