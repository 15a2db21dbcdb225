// Feature files in all forms of the HDF5 library.
#include "data/tasks/feature_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <zlib.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>

#include "data/tasks/task_loader.h"
#include "data/tasks/task_scorer.h"
#include "tests/support/array_file.h"
#include "tests/support/fixtures.h"
#include "tests/support/named.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<hsize_t>;
using testing::ArrayFile;
using testing::counting;
using testing::in_chunks;
using Create = ArrayFile::Create;

std::vector<float> read_sample(const FeatureFile& file, std::int64_t sample) {
  std::vector<float> features(static_cast<std::size_t>(file.length(sample) * file.width()));
  file.read(sample, features);
  return features;
}

void packed(hid_t options) {
  const hsize_t chunk[] = {2, 2, 2};
  H5Pset_chunk(options, 3, chunk);
  H5Pset_shuffle(options);
  H5Pset_deflate(options, 6);
  H5Pset_fletcher32(options);
}

class FeatureFiles : public FolderTest {
 protected:
  /// The examples of a.h5, with sequences cut to `length`.
  TaskDataset examples(const LabelSet& labels = {}, std::int64_t length = 8) const {
    return TaskDataset::read_features(resolve_task({.kind = TaskKind::features}),
                                      {(folder_ / "a.h5").string()}, Labelled::required, labels,
                                      length);
  }
};

TEST_F(FeatureFiles, AreReadInOnePieceAndInChunks) {
  for (const auto& create : {Create(), Create(packed)}) {
    {
      ArrayFile writer(folder_ / "a.h5");
      writer.add("features", create ? H5T_IEEE_F64LE : H5T_IEEE_F32LE, {3, 4, 5}, counting(60),
                 create);
      writer.add("lengths", H5T_STD_I64LE, {3}, {4, 1, 2});
      writer.add("labels", H5T_STD_U8LE, {3}, {0, 2, 1});
      writer.add("names of other things", H5T_STD_I16LE, {2}, {1, 2});
      H5Gclose(H5Gcreate2(writer.file(), "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    const FeatureFile file(folder_ / "a.h5");
    EXPECT_EQ(file.samples(), 3);
    EXPECT_EQ(file.steps(), 4);
    EXPECT_EQ(file.width(), 5);
    EXPECT_EQ(file.length(1), 1);
    EXPECT_EQ(file.labels(), (std::vector<std::int64_t>{0, 2, 1}));
    EXPECT_TRUE(file.values().empty());
    EXPECT_EQ(read_sample(file, 1), (std::vector<float>{10, 10.5, 11, 11.5, 12}));
    EXPECT_EQ(read_sample(file, 2).back(), 24.5F);
  }
}

// ---- Forms --------------------------------------------------------------------------------------

void scale_and_offset(hid_t options) { H5Pset_scaleoffset(options, H5Z_SO_FLOAT_DSCALE, 2); }

hid_t big_endian(hid_t type) {
  H5Tset_order(type, H5T_ORDER_BE);
  return type;
}

/// bfloat16, which has two bytes too.
hid_t brain_float_type() {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 7, 8, 0, 7);
  H5Tset_size(type, 2);
  return type;
}

/// How a file of the features 0, 1, …, 23 is written.
struct Form : testing::Named {
  hid_t type = H5T_IEEE_F32LE;
  Create create = {};
  std::function<void(hid_t access, hid_t creation)> file = {};
};

/// A function, because the library must not be used before main(): nystrom turns its work at exit
/// off.
std::vector<Form> forms() {
  return {
      {"Half", testing::half_type()},
      {"BigEndianHalf", big_endian(testing::half_type())},
      {"BrainFloat", brain_float_type()},
      {"Double", H5T_IEEE_F64LE},
      {"LongDouble", H5T_NATIVE_LDOUBLE},
      {"BigEndian", H5T_IEEE_F32BE},
      {"Bytes", H5T_STD_U8LE},
      {"BigEndianIntegers", H5T_STD_I16BE},
      {"Compact", H5T_IEEE_F32LE, [](hid_t options) { H5Pset_layout(options, H5D_COMPACT); }},
      {"ScaleOffset", H5T_IEEE_F32LE, in_chunks({2, 3, 4}, scale_and_offset)},
      {"NBit", H5T_STD_I32LE, in_chunks({1, 3, 4}, H5Pset_nbit)},
      {"SZip", H5T_IEEE_F32LE,
       in_chunks({1, 3, 4},
                 [](hid_t options) {
                   H5Pset_fletcher32(options);
                   H5Pset_szip(options, H5_SZIP_NN_OPTION_MASK, 4);
                 })},
      {"ChecksumFirst", H5T_IEEE_F32LE,
       [](hid_t options) {
         H5Pset_fletcher32(options);
         packed(options);
       }},
      {"PlainEdges", H5T_IEEE_F32LE,
       [](hid_t options) {
         packed(options);
         H5Pset_chunk_opts(options, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
       },
       [](hid_t access, hid_t) {
         H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
       }},
      {"Latest", H5T_IEEE_F32LE, packed,
       [](hid_t access, hid_t) {
         H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
       }},
      {"TrackedOrder",
       H5T_IEEE_F32LE,
       {},
       [](hid_t, hid_t creation) {
         H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
       }},
      {"UserBlock", H5T_IEEE_F32LE, packed,
       [](hid_t, hid_t creation) { H5Pset_userblock(creation, 512); }},
      {"Pages", H5T_IEEE_F32LE, packed,
       [](hid_t, hid_t creation) {
         H5Pset_file_space_strategy(creation, H5F_FSPACE_STRATEGY_PAGE, false, 1);
       }},
  };
}

class FeatureForms : public ::testing::TestWithParam<Form> {};

TEST_P(FeatureForms, AreRead) {
  const TemporaryFolder folder;
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE);
  if (GetParam().file) GetParam().file(access, creation);
  Values values(24);
  std::iota(values.begin(), values.end(), 0);
  ArrayFile(folder / "a.h5", access, creation)
      .add("features", GetParam().type, {2, 3, 4}, values, GetParam().create)
      .add("lengths", H5T_STD_I64BE, {2}, {3, 1})
      .add("values", H5T_STD_I16LE, {2}, {-1, 7});
  H5Pclose(access);
  H5Pclose(creation);
  const FeatureFile file(folder / "a.h5");
  EXPECT_EQ(read_sample(file, 0), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(read_sample(file, 1), (std::vector<float>{12, 13, 14, 15}));
  EXPECT_EQ(file.values(), (Values{-1, 7}));
}

INSTANTIATE_TEST_SUITE_P(All, FeatureForms, ::testing::ValuesIn(forms()), testing::case_name);

TEST_F(FeatureFiles, ManySamplesInAChunkOfAFragileFilterAreRead) {
  Values values(1000 * 500);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 97);
  ArrayFile(folder_ / "a.h5")
      .add("features", H5T_IEEE_F32LE, {1000, 1, 500}, values,
           in_chunks({1000, 1, 500}, scale_and_offset));
  EXPECT_EQ(read_sample(FeatureFile(folder_ / "a.h5"), 999)[499], 499999 % 97);
}

TEST_F(FeatureFiles, MayBeNamedByLinksWithinTheFile) {
  {
    ArrayFile writer(folder_ / "a.h5");
    writer.add("data", H5T_IEEE_F32LE, {1, 1, 2}, {1, 2});
    H5Lcreate_soft("/data", writer.file(), "features", H5P_DEFAULT, H5P_DEFAULT);
  }
  EXPECT_EQ(read_sample(FeatureFile(folder_ / "a.h5"), 0), (std::vector<float>{1, 2}));
}

/// Written by h5py: create_dataset("features", data=(numpy.arange(512) % 7 * 0.5).astype("f4")
/// .reshape(8, 16, 4), compression="lzf", shuffle=True, fletcher32=True, chunks=(4, 16, 4)).
TEST_F(FeatureFiles, PackedWithLzfAreRead) {
  const FeatureFile file(testing::fixture_folder() / "tasks" / "lzf.h5");
  for (std::int64_t sample = 0; sample < 8; ++sample) {
    const std::vector<float> features = read_sample(file, sample);
    ASSERT_EQ(features.size(), 64U);
    for (std::size_t i = 0; i < 64; ++i)
      ASSERT_EQ(features[i],
                static_cast<float>((static_cast<std::size_t>(sample) * 64 + i) % 7) * 0.5F);
  }
}

TEST_F(FeatureFiles, BecomeBatches) {
  ArrayFile(folder_ / "a.h5")
      .add("features", H5T_IEEE_F32LE, {2, 3, 2}, counting(12))
      .add("lengths", H5T_STD_I32LE, {2}, {1, 3})
      .add("values", H5T_IEEE_F64LE, {2}, {1.5, -2});
  const TaskDataset data = examples({}, 2);
  EXPECT_EQ(data.target(), TaskTarget::value);
  EXPECT_EQ(data.outputs(), 1);
  EXPECT_EQ(data.counts().truncated.count, 1);
  const std::vector<std::int64_t> both{1, 0};
  const Batch batch = make_task_batch(data, both, both);
  EXPECT_EQ(batch.input.features.to_doubles(), (Values{3, 3.5, 4, 4.5, 0, 0.5}));
  EXPECT_EQ(batch.input.offsets, (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(batch.labels.to_doubles(), (Values{-2, 1.5}));
  EXPECT_FALSE(batch.input.input_ids.defined());
}

TEST_F(FeatureFiles, GiveTheExamplesThatTheirSourceNames) {
  for (const auto& [name, first] : {std::pair("a.h5", 0.0), std::pair("b.h5", 2.0)})
    ArrayFile(folder_ / name)
        .add("features", H5T_IEEE_F32LE, {2, 3, 2}, counting(12))
        .add("values", H5T_IEEE_F64LE, {2}, {first, first + 1});
  const ExampleSource source({(folder_ / "a.h5").string(), (folder_ / "b.h5").string()},
                             [](std::int64_t number) { return number == 0 || number == 3; });
  const TaskDataset data = TaskDataset::read_features(resolve_task({.kind = TaskKind::features}),
                                                      source, Labelled::required, LabelSet(), 8);
  const std::vector<std::int64_t> all{0, 1};
  EXPECT_EQ(data.counts().samples, 2);
  EXPECT_EQ(make_task_batch(data, all, all).labels.to_doubles(), (Values{0, 3}));
}

TEST_F(FeatureFiles, NumberTheirClasses) {
  ArrayFile(folder_ / "a.h5")
      .add("features", H5T_IEEE_F32LE, {2, 3, 2}, counting(12))
      .add("labels", H5T_STD_I32LE, {2}, {3, 0});
  EXPECT_EQ(examples().labels().names(), (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(error_in_dir([&] { examples(numbered_labels(3)); }),
            "DIR/a.h5: labels[0] is 3, but there are 3 labels, numbered from 0");
}

TEST_F(FeatureFiles, PredictionsNeedNoRightTargets) {
  ArrayFile(folder_ / "a.h5")
      .add("features", H5T_IEEE_F32LE, {2, 3, 2}, counting(12))
      .add("labels", H5T_STD_I32LE, {2}, {-1, 7})
      .add("values", H5T_IEEE_F64LE, {2}, {NAN, 0});
  const TaskDataset data = TaskDataset::read_features(resolve_task({.kind = TaskKind::features}),
                                                      {(folder_ / "a.h5").string()},
                                                      Labelled::optional, numbered_labels(3), 8);
  EXPECT_EQ(data.target(), TaskTarget::none);
  EXPECT_EQ(data.size(), 2);
}

TEST_F(FeatureFiles, ChunksThatWereNeverWrittenAreZeros) {
  {
    const ArrayFile writer(folder_ / "a.h5");
    const hsize_t sizes[] = {3, 4, 4}, first[] = {2, 4, 4}, begin[] = {0, 0, 0};
    const hid_t space = H5Screate_simple(3, sizes, nullptr), part = H5Scopy(space),
                memory = H5Screate_simple(3, first, nullptr),
                options = H5Pcreate(H5P_DATASET_CREATE);
    packed(options);
    const hid_t array = H5Dcreate2(writer.file(), "features", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                                   options, H5P_DEFAULT);
    H5Sselect_hyperslab(part, H5S_SELECT_SET, begin, nullptr, first, nullptr);
    const std::vector<float> ones(32, 1);
    H5Dwrite(array, H5T_NATIVE_FLOAT, memory, part, H5P_DEFAULT, ones.data());
    H5Dclose(array);
    H5Sclose(memory);
    H5Sclose(part);
    H5Pclose(options);
    H5Sclose(space);
  }
  const FeatureFile file(folder_ / "a.h5");
  EXPECT_EQ(read_sample(file, 1), std::vector<float>(16, 1));
  EXPECT_EQ(read_sample(file, 2), std::vector<float>(16, 0));
}

TEST_F(FeatureFiles, OfOneClassTeachNothing) {
  ArrayFile(folder_ / "a.h5")
      .add("features", H5T_IEEE_F32LE, {2, 3, 2}, counting(12))
      .add("labels", H5T_STD_I32LE, {2}, {0, 0});
  EXPECT_EQ(
      error_in_dir([&] { examples(); }),
      "DIR/a.h5: all labels are 0; there is nothing to learn: name the others in task.labels");
}

TEST_F(FeatureFiles, ColumnsFarFromZeroAreCoarseInHalfTypes) {
  ArrayFile(folder_ / "a.h5")
      .add("features", H5T_IEEE_F32LE, {2, 2, 2}, {1000, 0, 1000.5, 1, 1001, 2, 1000.25, 3})
      .add("labels", H5T_STD_I32LE, {2}, {0, 1});
  const TaskDataset data = examples();
  for (const DType half : {DType::bf16, DType::f16})
    EXPECT_EQ(coarse_columns(data, half),
              fmt::format("1 of 2 columns of the features vary by less than {} tells apart (column "
                          "0 is 1000.44 ± 0.37); subtract their means, or set training.dtype: f32",
                          name_of(half)));
  EXPECT_EQ(coarse_columns(data, DType::f32), "");
}

// ---- Rejected files -----------------------------------------------------------------------------

struct Refused : testing::Named {
  std::function<void(ArrayFile&)> fill;
  const char* message;  // after "DIR/a.h5: "
};

/// Writes an array, and valid features before one that is not theirs.
std::function<void(ArrayFile&)> with(const char* name, hid_t type, const Sizes& shape,
                                     const Values& values) {
  return [=](ArrayFile& writer) {
    if (std::string_view(name) != "features")
      writer.add("features", H5T_IEEE_F32LE, {2, 3, 2}, counting(12));
    writer.add(name, type, shape, values);
  };
}

std::vector<Refused> refused() {
  return {
      {"no_features",
       [](ArrayFile& writer) {
         writer.add("x", H5T_IEEE_F32LE, {2}, {1, 2});
       },
       "there is no array 'features'; the file holds 'x'"},
      {"rank", with("features", H5T_IEEE_F32LE, {2, 3}, counting(6)),
       "'features' is [2, 3] f32, expected numbers [samples, steps, width]"},
      {"nothing", with("features", H5T_IEEE_F32LE, {0, 3, 2}, {}),
       "'features' is [0, 3, 2] f32: there is nothing in it"},
      {"never_written", with("features", H5T_IEEE_F32LE, {2, 3, 2}, {}),
       "'features': nothing was written into it"},
      {"strings", with("features", H5T_C_S1, {2}, {}),
       "'features': the elements are strings; only integers and floating-point numbers are read"},
      {"too_few_lengths", with("lengths", H5T_STD_I32LE, {1}, {3}),
       "'lengths' is [1] i32, expected [2] integers"},
      {"length_beyond", with("lengths", H5T_STD_I32LE, {2}, {3, 4}),
       "lengths[1] is 4, expected 1 to 3"},
      {"length_zero", with("lengths", H5T_STD_I32LE, {2}, {0, 3}),
       "lengths[0] is 0, expected 1 to 3"},
      {"fractional_labels", with("labels", H5T_IEEE_F64LE, {2}, {0, 1}),
       "'labels' is [2] f64, expected [2] integers"},
      {"negative_label", with("labels", H5T_STD_I8LE, {2}, {0, -1}),
       "labels[1] is -1, expected 0 to 9999"},
      {"infinite_value", with("values", H5T_IEEE_F64LE, {2}, {0, INFINITY}),
       "values[1] is inf, expected a finite number up to 1e18"},
      {"value_beyond_f32", with("values", H5T_IEEE_F64LE, {2}, {1e39, 0}),
       "values[0] is 1e+39, expected a finite number up to 1e18"},
      {"two_targets",
       [](ArrayFile& writer) {
         with("values", H5T_IEEE_F64LE, {2}, {0, 1})(writer);
         writer.add("labels", H5T_STD_I8LE, {2}, {0, 1});
       },
       "it holds 'labels' and 'values'; only one of them can be predicted"},
      {"not_finite",
       [](ArrayFile& writer) {
         Values values = counting(12);
         values[9] = NAN;
         writer.add("features", H5T_IEEE_F32LE, {2, 3, 2}, values);
       },
       "features[1, 1, 1] is nan, expected a finite number up to 1e+15"},
      {"too_large", with("features", H5T_IEEE_F64LE, {1, 2, 2}, {1, 1e15, -2e17, 0}),
       "features[0, 1, 0] is -2e+17, expected a finite number up to 1e+15"},
  };
}

class RefusedFeatures : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedFeatures, WithOneLine) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.h5";
  {
    ArrayFile writer(path);
    GetParam().fill(writer);
  }
  const auto read_all = [&] {
    const FeatureFile file(path);
    for (std::int64_t i = 0; i < file.samples(); ++i) read_sample(file, i);
  };
  EXPECT_EQ(input_error(read_all), path.string() + ": " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Files, RefusedFeatures, ::testing::ValuesIn(refused()),
                         testing::case_name);

// ---- Damaged and replaced files -----------------------------------------------------------------

/// Whether each byte of the file belongs to a chunk of 'features'.
std::vector<bool> bytes_of_chunks(const std::filesystem::path& path) {
  std::vector<bool> within(std::filesystem::file_size(path));
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
              set = H5Dopen2(file, "features", H5P_DEFAULT), space = H5Dget_space(set);
  hsize_t chunks = 0, size = 0;
  H5Dget_num_chunks(set, space, &chunks);
  for (hsize_t i = 0; i < chunks; ++i) {
    hsize_t offset[3];
    haddr_t place = 0;
    H5Dget_chunk_info(set, space, i, offset, nullptr, &place, &size);
    std::fill_n(within.begin() + static_cast<std::ptrdiff_t>(place), size, true);
  }
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  return within;
}

/// Reads all samples. Returns whether the file was refused.
bool is_refused(const std::filesystem::path& path) {
  try {
    const FeatureFile file(path);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(file.samples(), 9); ++i)
      read_sample(file, i);
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return true;
  }
  return false;
}

TEST_F(FeatureFiles, DamagedAnywhereEndInAnErrorOrInNumbers) {
  ArrayFile(folder_ / "a.h5")
      .add("features", H5T_IEEE_F32LE, {3, 4, 5}, counting(60), packed)
      .add("lengths", H5T_STD_I64LE, {3}, {4, 4, 4});
  const std::string whole = read_bytes(folder_ / "a.h5");
  const std::vector<bool> has_checksum = bytes_of_chunks(folder_ / "a.h5");
  std::fstream file(folder_ / "a.h5", std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t place, char byte) {
    file.seekp(static_cast<std::streamoff>(place)).put(byte).flush();
  };
  // Each try takes a process. Of zeros, which are mostly unused space, every eighth is enough.
  int numbers = 0, numbers_refused = 0, others = 0, others_refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == 0 && i % 8 != 0 && !has_checksum[i]) continue;
    constexpr int flips[] = {0x01, 0x80, 0xFF};
    put(i, static_cast<char>(whole[i] ^ flips[i % 3]));
    const bool refused_here = is_refused(folder_ / "a.h5");
    (has_checksum[i] ? numbers : others) += 1;
    (has_checksum[i] ? numbers_refused : others_refused) += static_cast<int>(refused_here);
    put(i, whole[i]);
  }
  EXPECT_GT(numbers, 200);
  EXPECT_EQ(numbers_refused, numbers);
  // The structure has no checksums. Most of it is unused or harmless: 194 of 1,014 are refused.
  EXPECT_GT(others, 500);
  EXPECT_GT(others_refused, others / 8);
  for (std::size_t size = whole.size(); size > 97; size -= 97) {
    std::filesystem::resize_file(folder_ / "a.h5", size - 97);
    EXPECT_TRUE(is_refused(folder_ / "a.h5")) << size;
  }
}

/// Replaces the first stored chunk of 'features' by these bytes; the filters whose bits `skipped`
/// has count as left out.
void store_chunk(const std::filesystem::path& path, const std::string& bytes, unsigned skipped) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
              set = H5Dopen2(file, "features", H5P_DEFAULT);
  const hsize_t first[] = {0, 0, 0};
  EXPECT_GE(H5Dwrite_chunk(set, H5P_DEFAULT, skipped, first, bytes.size(), bytes.data()), 0);
  H5Dclose(set);
  H5Fclose(file);
}

/// The library itself takes for numbers what lies behind such a chunk in memory.
TEST_F(FeatureFiles, WithChunksThatUnpackToLessAreRefused) {
  const auto gzip = [](std::size_t size) {
    const std::string zeros(size, '\0');
    uLongf packed = ::compressBound(size);
    std::string bytes(packed, '\0');
    ::compress(reinterpret_cast<Bytef*>(bytes.data()), &packed,
               reinterpret_cast<const Bytef*>(zeros.data()), size);
    return bytes.substr(0, packed);
  };
  const auto path = folder_ / "a.h5";
  const auto error_with = [&](const std::string& chunk, unsigned skipped) {
    ArrayFile(path).add("features", H5T_IEEE_F32LE, {2, 2, 2}, counting(8),
                        in_chunks({1, 2, 2}, [](hid_t options) {
                          H5Pset_shuffle(options);
                          H5Pset_deflate(options, 6);
                        }));
    store_chunk(path, chunk, skipped);
    try {
      const FeatureFile file(path);
      EXPECT_EQ(read_sample(file, 1).back(), 3.5F);
      EXPECT_EQ(read_sample(file, 0), std::vector<float>(4));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  const auto refusal = [&](int bytes) {
    return fmt::format(
        "{}: 'features': the chunk at [0, 0, 0] unpacks to {} bytes, expected 16: the file is "
        "damaged",
        path.string(), bytes);
  };
  constexpr unsigned only_shuffled = 2, only_gzipped = 1, as_it_is = 3;
  EXPECT_EQ(error_with(gzip(16), 0), "read");
  EXPECT_EQ(error_with(gzip(16), only_gzipped), "read");
  EXPECT_EQ(error_with(std::string(16, '\0'), only_shuffled), "read");
  EXPECT_EQ(error_with(std::string(16, '\0'), as_it_is), "read");
  EXPECT_EQ(error_with(gzip(12), 0), refusal(12));
  EXPECT_EQ(error_with(gzip(12), only_gzipped), refusal(12));
  EXPECT_EQ(error_with(std::string(12, '\0'), only_shuffled), refusal(12));
  EXPECT_EQ(error_with(std::string(12, '\0'), as_it_is), refusal(12));
  EXPECT_EQ(error_with("no stream", 0), refusal(0));
}

/// Eight runs of 32 bytes, and a reference without its length and distance.
TEST_F(FeatureFiles, WithLzfThatEndsWithinAReferenceAreRefused) {
  write_bytes(folder_ / "a.h5", read_bytes(testing::fixture_folder() / "tasks" / "lzf.h5"));
  std::string chunk;
  for (int i = 0; i < 8; ++i) chunk += '\x1f' + std::string(32, '\0');
  constexpr unsigned only_lzf = 5;
  store_chunk(folder_ / "a.h5", chunk + '\xe0', only_lzf);
  EXPECT_EQ(error_in_dir([&] { read_sample(FeatureFile(folder_ / "a.h5"), 0); }),
            "DIR/a.h5: 'features': the chunk at [0, 0, 0] unpacks to 0 bytes, expected 1024: the "
            "file is damaged");
}

/// The library itself would read the new numbers by the structure of the file before.
TEST_F(FeatureFiles, OverwrittenWhileOpenAreReadAnew) {
  const auto write = [&](const char* name, const Sizes& shape, double first) {
    Values values(shape[0] * shape[1] * shape[2]);
    std::iota(values.begin(), values.end(), first);
    ArrayFile(folder_ / name).add("features", H5T_IEEE_F32LE, shape, values, packed);
  };
  write("a.h5", {2, 3, 2}, 0);
  write("b.h5", {4, 2, 2}, 100);
  const FeatureFile before(folder_ / "a.h5");
  EXPECT_EQ(read_sample(before, 0), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  // In place, as h5py.File(…, "w") does.
  write_bytes(folder_ / "a.h5", read_bytes(folder_ / "b.h5"));
  const FeatureFile after(folder_ / "a.h5");
  EXPECT_EQ(after.samples(), 4);
  EXPECT_EQ(read_sample(after, 3), (std::vector<float>{112, 113, 114, 115}));
}

TEST_F(FeatureFiles, ReplacedWhileOpenStayTheFileThatWasOpened) {
  for (const auto& [name, last] : {std::pair("a.h5", 11.0), std::pair("b.h5", 7.0)}) {
    Values values = counting(12);
    values.back() = last;
    ArrayFile(folder_ / name).add("features", H5T_IEEE_F32LE, {2, 3, 2}, values);
  }
  const FeatureFile before(folder_ / "a.h5");
  std::filesystem::rename(folder_ / "b.h5", folder_ / "a.h5");
  EXPECT_EQ(read_sample(before, 1).back(), 11);
  EXPECT_EQ(read_sample(FeatureFile(folder_ / "a.h5"), 1).back(), 7);
}

}  // namespace
}  // namespace nystrom
