#include "train/state/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/protobuf.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

/// The bytes of a file with this header and data.
std::string file_with(const std::string& header, const std::string& data = "") {
  return protobuf::little_endian(std::uint64_t{header.size()}) + header + data;
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

using Safetensors = FolderTest;
using SafetensorsWriter = FolderTest;
using SafetensorsDamage = FolderTest;

TEST_F(Safetensors, EveryTypeSurvivesARoundTrip) {
  write_safetensors(folder_ / "a.safetensors", every_type());
  const auto file = TensorFile::open(folder_ / "a.safetensors");
  EXPECT_EQ(file.tensors().size(), every_type().size());
  // Without it transformers refuses the file.
  EXPECT_NE(read_bytes(folder_ / "a.safetensors").find(R"("format":"pt")"), std::string::npos);
  for (const NamedTensor& expected : every_type()) {
    ASSERT_TRUE(file.contains(expected.name));
    const Tensor got = file.read(expected.name);
    EXPECT_EQ(got.dtype(), expected.tensor.dtype()) << expected.name;
    EXPECT_EQ(got.shape(), expected.tensor.shape()) << expected.name;
    EXPECT_EQ(got.to_doubles(), expected.tensor.to_doubles()) << expected.name;
  }
}

TEST_F(Safetensors, TensorsLongerThanAChunkSurvive) {
  std::vector<float> values(700'001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  write_safetensors(folder_ / "a.safetensors", {{"a", Tensor::from(values, {700'001})}});
  const Tensor got = TensorFile::open(folder_ / "a.safetensors").read("a");
  EXPECT_TRUE(std::equal(values.begin(), values.end(), got.data<float>()));
}

TEST_F(Safetensors, LayoutIsByTypeThenName) {
  const Tensor one_f32 = Tensor::from<float>({1}, {1});
  const Tensor one_i64 = Tensor::from<std::int64_t>({1}, {1});
  write_safetensors(folder_ / "a.safetensors", {{"b", one_f32}, {"a", one_f32}, {"z", one_i64}});
  const auto file = TensorFile::open(folder_ / "a.safetensors");
  std::string order;
  for (const StoredTensor& tensor : file.tensors()) order += tensor.name;
  EXPECT_EQ(order, "zab");
}

TEST_F(Safetensors, HeaderIsPaddedToEightBytes) {
  for (int length = 1; length <= 8; ++length) {
    write_safetensors(
        folder_ / "a.safetensors",
        {{std::string(static_cast<std::size_t>(length), 'n'), Tensor::from<float>({1}, {1})}});
    EXPECT_EQ(read_bytes(folder_ / "a.safetensors").size() % 8, 4u);
  }
}

TEST_F(Safetensors, AFileWithoutTensorsIsRead) {
  write_bytes(folder_ / "a", file_with("{}      "));
  EXPECT_TRUE(TensorFile::open(folder_ / "a").tensors().empty());
}

TEST_F(Safetensors, TensorsAreReadWhateverTheOrderOfTheHeader) {
  write_bytes(folder_ / "a", file_with(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                                       R"("a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})",
                                       "\x01\x02"));
  const auto file = TensorFile::open(folder_ / "a");
  EXPECT_EQ(file.read("a").item(), 1);
  EXPECT_EQ(file.read("b").item(), 2);
}

TEST_F(Safetensors, HalfPrecisionBecomesF32) {
  // 1, -2, the largest, the smallest normal and subnormal values, infinity
  write_bytes(
      folder_ / "a",
      file_with("F16", "[6]", std::string("\x00\x3c\x00\xc0\xff\x7b\x00\x04\x01\x00\x00\x7c", 12)));
  const Tensor got = TensorFile::open(folder_ / "a").read("a");
  EXPECT_EQ(got.dtype(), DType::f32);
  EXPECT_EQ(got.to_doubles(),
            (std::vector<double>{1, -2, 65504, std::ldexp(1, -14), std::ldexp(1, -24), INFINITY}));
}

TEST_F(Safetensors, HalfPrecisionIsWrittenAsItIs) {
  write_safetensors(folder_ / "a", {{"a", Tensor::from<f16>({f16(1.5f), f16(-65504)}, {2})}});
  const auto file = TensorFile::open(folder_ / "a");
  EXPECT_EQ(file.stored("a").dtype, DType::f16);
  EXPECT_EQ(file.read("a").to_doubles(), (std::vector<double>{1.5, -65504}));
}

TEST_F(Safetensors, BooleansBecomeBytes) {
  write_bytes(folder_ / "a", file_with("BOOL", "[2]", std::string("\x00\x01", 2)));
  EXPECT_EQ(TensorFile::open(folder_ / "a").read("a").to_doubles(), (std::vector<double>{0, 1}));
}

TEST_F(Safetensors, NonFiniteValuesAreRefusedWhenAsked) {
  write_safetensors(folder_ / "a", {{"a", Tensor::from<float>({1, 2, NAN, INFINITY}, {4})}});
  const auto file = TensorFile::open(folder_ / "a");
  EXPECT_EQ(file.read("a").numel(), 4);
  EXPECT_EQ(input_error([&] { file.read("a", NonFinite::refuse); }),
            (folder_ / "a").string() + ": tensor a is not finite at element 2");
}

TEST_F(Safetensors, AnAbsentTensorIsNamed) {
  write_safetensors(folder_ / "a", {});
  EXPECT_EQ(input_error([&] { TensorFile::open(folder_ / "a").read("x\n"); }),
            (folder_ / "a").string() + ": has no tensor x\\x0a");
}

TEST_F(Safetensors, OnlyRegularFilesAreRead) {
  EXPECT_EQ(input_error([&] { TensorFile::open(folder_.path()); }),
            folder_.path().string() + ": is not a regular file");
  EXPECT_EQ(input_error([&] { TensorFile::open(folder_ / "absent"); }),
            (folder_ / "absent").string() + ": cannot open: No such file or directory");
}

TEST_F(Safetensors, AFileThatShrinksWhileReadIsReported) {
  write_bytes(folder_ / "a", file_with("U8", "[4]", "abcd"));
  const auto file = TensorFile::open(folder_ / "a");
  std::filesystem::resize_file(folder_ / "a", std::filesystem::file_size(folder_ / "a") - 1);
  EXPECT_EQ(
      input_error([&] { file.read("a"); }),
      (folder_ / "a").string() + ": ends at byte 64, 1 more expected: it changed while being read");
}

TEST_F(SafetensorsWriter, RefusesNamesThatCannotBeRead) {
  const Tensor one = Tensor::from<float>({1}, {1});
  EXPECT_THROW(write_safetensors(folder_ / "a", {{"a/b", one}}), Error);
  EXPECT_THROW(write_safetensors(folder_ / "a", {{"__metadata__", one}}), Error);
  EXPECT_THROW(write_safetensors(folder_ / "a", {{"a", one}, {"a", one}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SafetensorsWriter, LeavesNothingBehindWhenItCannotFinish) {
  std::filesystem::create_directories(folder_ / "a/occupied");  // the final rename fails
  EXPECT_EQ(input_error([&] { write_safetensors(folder_ / "a", every_type()); }),
            (folder_ / "a").string() + ": cannot rename into place: Is a directory");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(SafetensorsWriter, ReplacesAnOlderFile) {
  write_bytes(folder_ / "a", "old");
  write_safetensors(folder_ / "a", every_type());
  EXPECT_EQ(TensorFile::open(folder_ / "a").tensors().size(), every_type().size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
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

TEST_F(SafetensorsDamage, EveryOtherValueOfEveryByteOfTheHeaderIsDetected) {
  const std::string good = small_file(folder_);
  ASSERT_TRUE(header_accepted(good));
  std::string bad = good;
  for (std::size_t i = 0; i < good.size() - small_file_data; ++i) {
    for (int change = 1; change < 256; ++change) {
      bad[i] = static_cast<char>(good[i] ^ change);
      if (!header_accepted(bad)) continue;
      // The change hit a checksum, so reading the data must fail.
      write_bytes(folder_ / "bad", bad);
      ASSERT_NE(input_error([&] { read_everything(folder_ / "bad"); }), "no error")
          << "byte " << i << " xor " << change;
    }
    bad[i] = good[i];
  }
}

TEST_F(SafetensorsDamage, EveryFlippedBitOfTheDataIsDetected) {
  const std::string good = small_file(folder_);
  for (std::size_t i = good.size() - small_file_data; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    write_bytes(folder_ / "bad", bad);
    const std::string name = i < good.size() - 3 ? "weight" : "ids";
    ASSERT_EQ(input_error([&] { read_everything(folder_ / "bad"); }),
              (folder_ / "bad").string() + ": tensor " + name +
                  " is damaged: its checksum is not that in nystrom.integrity");
  }
}

TEST_F(SafetensorsDamage, TruncationAtEveryByteIsRefused) {
  const std::string good = small_file(folder_);
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_bytes(folder_ / "bad", good.substr(0, length));
    ASSERT_NE(input_error([&] { read_everything(folder_ / "bad"); }), "no error") << length;
  }
}

}  // namespace
}  // namespace nystrom
