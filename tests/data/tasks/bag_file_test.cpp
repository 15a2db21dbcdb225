// Bags of features in files of every form.
#include "data/tasks/feature_file.h"

#include <cmath>
#include <cstring>

#include "tests/support/bags.h"
#include "tests/support/errors.h"
#include "tests/support/says.h"

namespace nystrom::testing {
namespace {

using Values = std::vector<double>;

template <class T>
std::string bytes_of(const Values& values) {
  std::string bytes;
  for (const double value : values) {
    const auto number = static_cast<T>(static_cast<float>(value));
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return bytes;
}

std::string npy(const std::string& type, const std::string& shape, const std::string& data,
                const std::string& order = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

Values read(const BagFile& file, DType dtype) {
  Tensor features = Tensor::empty({file.rows(), file.width()}, dtype);
  file.read(features);
  return features.cast(DType::f64).to_doubles();
}

class BagFileTest : public FolderTest {
 protected:
  /// The error of reading a file, without the file name at its start.
  std::string refusal(const std::string& name) const {
    const std::string message = folder_.with_dir(message_of([&] {
      const BagFile bag(folder_ / name);
      read(bag, DType::f32);
      bag.coords();
    }));
    const std::string place = "DIR/" + name;
    return message.starts_with(place) ? message.substr(place.size()) : message;
  }
  std::string refusal(const std::string& name, const std::string& bytes) const {
    write_bytes(folder_ / name, bytes);
    return refusal(name);
  }
};

TEST_F(BagFileTest, ReadsEveryForm) {
  const Values values = counting(70, -3);
  write_bag(folder_ / "f32.h5", 7, values);
  write_bag(folder_ / "f64.h5", 7, values, H5T_IEEE_F64LE, 1);
  write_bag(folder_ / "f16.h5", 7, values, half_type(), 3);
  write_bag(folder_ / "whole.hdf5", 7, values, H5T_IEEE_F32BE, 0);
  ArrayFile(folder_ / "one.h5")
      .add("features", H5T_IEEE_F32LE, {1, 10, 7}, values, in_chunks({1, 10, 7}), true);
  write_bytes(folder_ / "f16.npy", npy("<f2", "10, 7", bytes_of<f16>(values)));
  write_bytes(folder_ / "f32.npy", npy("<f4", "10, 7", bytes_of<float>(values)));
  write_bytes(folder_ / "f64.npy", npy("<f8", "1, 10, 7", bytes_of<double>(values)));
  write_bytes(folder_ / "f16.safetensors",
              safetensors(R"({"features":{"dtype":"F16","shape":[10,7],"data_offsets":[0,140]}})",
                          bytes_of<f16>(values)));
  write_bytes(folder_ / "bf16.safetensors",
              safetensors(R"({"x":{"dtype":"BF16","shape":[10,7],"data_offsets":[0,140]}})",
                          bytes_of<bf16>(values)));
  std::vector<Digest> digests;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const BagFile bag(entry.path());
    SCOPED_TRACE(entry.path());
    EXPECT_EQ(bag.rows(), 10);
    EXPECT_EQ(bag.width(), 7);
    const bool half = entry.path().stem() == "f16";
    EXPECT_EQ(bag.dtype(), half ? DType::f16 : DType::f32);
    EXPECT_EQ(read(bag, DType::f32), values);
    EXPECT_EQ(read(bag, bag.dtype()), values);
    const std::string ending = entry.path().extension();
    const bool beside = ending.starts_with(".h") && entry.path().stem() != "one";
    EXPECT_EQ(bag.coords().has_value(), beside);
    digests.push_back(bag.digest());
    EXPECT_EQ(digests.back(), digests.front());
  }
  EXPECT_EQ(digests.size(), 10U);
  EXPECT_TRUE(is_bag_file(folder_ / "f32.h5"));
  EXPECT_FALSE(is_bag_file(folder_ / "one.h5"));
  EXPECT_TRUE(is_bag_file(folder_ / "f16.npy"));
}

TEST_F(BagFileTest, IsOneOfOneSampleWithoutLabels) {
  const auto write = [&](const std::string& name, const std::vector<std::string>& others) {
    {
      ArrayFile file(folder_ / name);
      file.add("features", H5T_IEEE_F32LE, {1, 10, 7}, counting(70));
      for (const std::string& other : others) file.add(other.c_str(), H5T_IEEE_F32LE, {1}, {1});
    }
    EXPECT_FALSE(is_bag_file(folder_ / name)) << "for a task of samples";
    return is_bag_file(folder_ / name, true);
  };
  EXPECT_TRUE(write("bag.h5", {}));
  EXPECT_FALSE(write("labelled.h5", {"labels"}));
  EXPECT_FALSE(write("valued.h5", {"values"}));
  EXPECT_FALSE(write("ragged.h5", {"lengths"}));
}

/// Padding, and the empty background before it, are the same in many bags.
TEST_F(BagFileTest, BagsOfEqualRowsInPlacesAreNotEqual) {
  Values one(7 * 1000, 0), other = one;
  for (int i = 7; i < 70; ++i) one[i] = i, other[i] = -i;
  write_bag(folder_ / "one.h5", 7, one);
  write_bag(folder_ / "other.h5", 7, other);
  EXPECT_NE(BagFile(folder_ / "one.h5").digest(), BagFile(folder_ / "other.h5").digest());
}

TEST_F(BagFileTest, RefusesAFileThatIsOpenForWriting) {
  const hid_t newest = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(newest, H5F_LIBVER_V110, H5F_LIBVER_LATEST);
  ArrayFile(folder_ / "x.h5", newest).add("features", H5T_IEEE_F32LE, {10, 7}, counting(70));
  H5Pclose(newest);
  EXPECT_EQ(BagFile(folder_ / "x.h5").rows(), 10);
  std::string bytes = read_bytes(folder_ / "x.h5");
  bytes[11] = 1;
  write_bytes(folder_ / "x.h5", bytes);
  expect_says(refusal("x.h5"), ": is open for writing, or its writer was killed");
}

TEST_F(BagFileTest, ReadsManyBlocks) {
  Values values;
  for (int i = 0; i < 3000 * 512; ++i) values.push_back(i % 2039);
  write_bag(folder_ / "a.h5", 512, values, half_type(), 32);
  const BagFile bag(folder_ / "a.h5");
  EXPECT_EQ(read(bag, DType::f16), read(bag, DType::f32));
  EXPECT_EQ(read(bag, DType::f16), values);
}

TEST_F(BagFileTest, GivesTheCoordsBesideTheFeatures) {
  write_bag(folder_ / "a.h5", 1, counting(12));
  const auto coords = BagFile(folder_ / "a.h5").coords();
  ASSERT_TRUE(coords.has_value());
  EXPECT_TRUE(coords->whole);
  EXPECT_EQ(coords->columns, 2);
  EXPECT_EQ(coords->values[22], 256);
  EXPECT_EQ(coords->values[23], 256);
}

TEST_F(BagFileTest, RefusesCoordsThatLoseDigits) {
  const double exact = 9007199254740991;  // 2^53 - 1
  for (const double last : {exact, exact + 1, 9223372036854775808.0}) {
    ArrayFile(folder_ / "a.h5")
        .add("features", H5T_IEEE_F32LE, {2, 1}, {1, 2})
        .add("coords", H5T_STD_U64LE, {2, 2}, {0, 0, 0, last});
    EXPECT_EQ(refusal("a.h5"), last == exact
                                   ? ""
                                   : ": coords[1] is beyond 2^53, where whole numbers lose their "
                                     "last digits; write coords in pixels of the slide");
  }
}

TEST_F(BagFileTest, RefusesOtherForms) {
  const Values values = counting(6, -3);
  const std::string data = bytes_of<float>(values);
  EXPECT_EQ(refusal("a.npy", "no array at all"), ": is no npy file");
  expect_says(refusal("a.npy", npy("<f4", "3, 2", data, "True")),
              ": expected <f2, <f4 or <f8 in C order, got <f4 in Fortran order; np.save");
  expect_says(refusal("a.npy", npy("<i8", "3, 2", data)), "got <i8 in C order");
  EXPECT_EQ(refusal("a.npy", npy("<f4", "6,", data)), ": the array is [6], expected [rows, width]");
  EXPECT_EQ(refusal("a.npy", npy("<f4", "2, 3, 1", data)),
            ": the array is [2, 3, 1], expected [rows, width]");
  EXPECT_EQ(refusal("a.npy", npy("<f4", "0, 3", "")),
            ": the array is [0, 3]: there is nothing in it");
  EXPECT_EQ(refusal("a.npy", npy("<f4", "4, 2", data)),
            ": [4, 2] numbers do not fit into its 152 bytes: it is cut short");
  EXPECT_EQ(refusal("a.npy", npy("<f4", "1, 2", data)),
            ": 16 bytes follow its [1, 2] numbers: np.save was called more than once; save one "
            "array a file");
  EXPECT_EQ(
      refusal("a.npy", npy("<f4", "999999999999, 999999999999", data)),
      ": [999999999999, 999999999999] numbers do not fit into its 152 bytes: it is cut short");
  EXPECT_EQ(refusal("a.npy", npy("<f4", "3, 2", bytes_of<float>({1, 2, 3, NAN, 5, 6}))),
            ": features[1, 1] is nan, expected a finite number up to 1e+15");
  EXPECT_EQ(refusal("a.npy", npy("<f4", "3, 2", bytes_of<float>({1, 2, -3e17, 4, 5, 6}))),
            ": features[1, 0] is -3e+17, expected a finite number up to 1e+15");
  EXPECT_EQ(refusal("a.npy", npy("<f2", "3, 2", bytes_of<f16>({1, 2, 3, 4, 1e9, 6}))),
            ": features[2, 0] is inf, expected a finite number up to 1e+15");
  EXPECT_EQ(refusal("a.pt", "x"),
            ": a bag of features is .h5, .hdf5, .npy or .safetensors; save it as one of them");
  EXPECT_EQ(refusal("a.h5", "x"), ": not an HDF5 file");
  EXPECT_EQ(
      refusal("a.safetensors",
              safetensors(R"({"features":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}})",
                          "12345678")),
      ": tensor features is I64, expected F16, BF16, F32 or F64");
  EXPECT_EQ(refusal("a.safetensors", safetensors("{}", "")),
            ": there is no tensor 'features'; the file holds 0 others");
  ArrayFile(folder_ / "b.h5").add("feats", H5T_IEEE_F32LE, {3, 2}, values);
  EXPECT_EQ(refusal("b.h5"), ": there is no array 'features'; the file holds 'feats'");
}

/// Padding that counts as rows changes every result, and the file says what it is.
TEST_F(BagFileTest, RefusesWhatTellsPadding) {
  const std::string remedy =
      "' is not read: every row of a bag counts; write the rows that are no padding, without it";
  for (const std::string name :
       {"mask", "length", "lengths", "attention_mask", "Key_Padding_Mask", "valid"}) {
    ArrayFile(folder_ / "a.h5")
        .add("features", H5T_IEEE_F32LE, {1, 10, 7}, counting(70))
        .add(name.c_str(), H5T_STD_U8LE, {1}, {9});
    EXPECT_EQ(refusal("a.h5"), ": '" + name + remedy);
  }
  EXPECT_EQ(refusal("a.safetensors",
                    safetensors(R"({"features":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},)"
                                R"("mask":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
                                "12345")),
            ": 'mask" + remedy);
}

TEST_F(BagFileTest, RefusesAFileThatChanged) {
  write_bytes(folder_ / "a.npy", npy("<f4", "3, 2", bytes_of<float>(counting(6))));
  const BagFile bag(folder_ / "a.npy");
  write_bytes(folder_ / "a.npy", npy("<f4", "4, 2", bytes_of<float>(counting(8))));
  EXPECT_EQ(folder_.with_dir(message_of([&] { read(bag, DType::f32); })),
            "DIR/a.npy: it changed since the program opened it first");
}

}  // namespace
}  // namespace nystrom::testing
