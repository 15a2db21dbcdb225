// HDF5 files with unsupported or false content. Each is rejected with a message that names the
// problem.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>

#include "data/hdf5/hdf5.h"
#include "tests/support/hdf5_seal.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using testing::number_at;
using testing::put_number;

/// The properties of an array. The defaults are supported.
struct Recipe {
  hid_t type = H5T_STD_U16LE;
  std::vector<hsize_t> dims = {100}, most = {1000}, chunk = {10};
  bool shuffle = true, deflate = true, fletcher32 = true, scale = false, write = true;
  H5D_layout_t layout = H5D_CHUNKED;
  std::function<void(hid_t)> creation = [](hid_t) {};
};

void add_array(hid_t file, const char* name, const Recipe& recipe) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const int rank = static_cast<int>(recipe.dims.size());
  if (recipe.layout == H5D_CHUNKED && rank > 0) H5Pset_chunk(creation, rank, recipe.chunk.data());
  if (recipe.layout == H5D_COMPACT || recipe.layout == H5D_CONTIGUOUS)
    H5Pset_layout(creation, recipe.layout);
  if (recipe.shuffle) H5Pset_shuffle(creation);
  if (recipe.deflate) H5Pset_deflate(creation, 6);
  if (recipe.fletcher32) H5Pset_fletcher32(creation);
  if (recipe.scale) H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
  H5Pset_obj_track_times(creation, false);
  recipe.creation(creation);
  const hid_t space = rank == 0
                          ? H5Screate(H5S_SCALAR)
                          : H5Screate_simple(rank, recipe.dims.data(),
                                             recipe.most.empty() ? nullptr : recipe.most.data());
  const hid_t array =
      H5Dcreate2(file, name, recipe.type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ASSERT_GE(array, 0);
  const std::string zeros(std::size_t{8} << 20, '\0');
  if (recipe.write) {
    ASSERT_GE(H5Dwrite(array, recipe.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()), 0);
  }
  H5Dclose(array);
  H5Sclose(space);
  H5Pclose(creation);
}

/// Creates a file with the HDF5 library; `fill` adds its content.
void make_file(const std::filesystem::path& path, const std::function<void(hid_t)>& fill,
               H5F_libver_t version = H5F_LIBVER_V110, hsize_t user = 0) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_libver_bounds(access, version, H5F_LIBVER_LATEST);
  H5Pset_est_link_info(creation, 8, 32);
  H5Pset_userblock(creation, user);
  H5Pset_obj_track_times(creation, false);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  ASSERT_GE(file, 0);
  fill(file);
  H5Fclose(file);
  H5Pclose(creation);
  H5Pclose(access);
}

/// Opens the file and reads all of its content.
std::string read_all(const std::filesystem::path& path) {
  const Hdf5File file(InputFile::open(path));
  std::string everything;
  for (const Hdf5Array& array : file.arrays()) {
    for (std::size_t i = 0; i < array.chunks.size(); ++i) {
      for (const std::byte byte : file.read_chunk(array, static_cast<std::int64_t>(i)))
        everything += static_cast<char>(byte);
    }
  }
  return everything;
}

/// The error of reading the file, without the file name at its start.
std::string refusal(const std::filesystem::path& path) {
  const std::string message = input_error([&] { read_all(path); });
  const std::string name = path.string() + ": ";
  return message.starts_with(name) ? message.substr(name.size()) : message;
}

struct Case {
  const char* name;
  std::function<void(hid_t)> fill;
  std::string message;
};

Case array_case(const char* name, const Recipe& recipe, std::string message) {
  return {name, [recipe](hid_t file) { add_array(file, "x", recipe); }, "array x" + message};
}

hid_t compound_type() {
  const hid_t type = H5Tcreate(H5T_COMPOUND, 2);
  H5Tinsert(type, "a", 0, H5T_STD_U16LE);
  return type;
}

hid_t enum_type() {
  const hid_t type = H5Tenum_create(H5T_STD_U16LE);
  const std::uint16_t one = 1;
  H5Tenum_insert(type, "one", &one);
  return type;
}

hid_t odd_type() {
  const hid_t type = H5Tcopy(H5T_STD_U16LE);
  H5Tset_precision(type, 12);
  return type;
}

std::vector<Case> type_cases() {
  const std::string only = "; only unsigned integers are read";
  return {
      array_case("Float", {.type = H5T_IEEE_F32LE},
                 ": the elements are floating-point numbers" + only),
      array_case("String", {.type = H5T_C_S1}, ": the elements are strings" + only),
      array_case("Opaque", {.type = H5Tcreate(H5T_OPAQUE, 2)},
                 ": the elements are opaque values" + only),
      array_case("Bits", {.type = H5T_STD_B16LE}, ": the elements are bit fields" + only),
      array_case("Compound", {.type = compound_type()},
                 ": the elements are compound values" + only),
      array_case("Enum", {.type = enum_type(), .write = false}, ": the elements are enums" + only),
      array_case("VariableLength",
                 {.type = H5Tvlen_create(H5T_STD_U16LE),
                  .shuffle = false,
                  .deflate = false,
                  .fletcher32 = false,
                  .write = false},
                 ": the elements are variable-length values" + only),
      array_case("Reference", {.type = H5T_STD_REF_OBJ, .write = false},
                 ": the elements are references" + only),
      array_case("Signed", {.type = H5T_STD_I16LE}, ": the elements are signed" + only),
      array_case("BigEndian", {.type = H5T_STD_U16BE},
                 ": the elements are big-endian; only little-endian integers are read"),
      array_case("TwelveBits", {.type = odd_type()},
                 ": elements of 12 bits at bit 0 of 2 bytes; 8, 16, 32 or 64 whole bits expected"),
  };
}

std::vector<Case> shape_cases() {
  const std::string rank = "; only arrays of rank 1 are read",
                    no_chunks = ": storage is not in chunks",
                    index = "; only a fixed array is read";
  const Recipe plain{.shuffle = false, .deflate = false, .fletcher32 = false};
  Recipe scalar = plain, contiguous = plain, compact = plain, external = plain;
  scalar.dims = scalar.most = {};
  contiguous.layout = H5D_CONTIGUOUS, contiguous.most = {};
  compact.layout = H5D_COMPACT, compact.most = {};
  external = contiguous;
  external.write = false;
  external.creation = [](hid_t creation) { H5Pset_external(creation, "/etc/hostname", 0, 200); };
  Recipe external_floats = external;
  external_floats.type = H5T_IEEE_F32LE;
  external_floats.creation = [](hid_t creation) {
    H5Pset_external(creation, "/etc/hostname", 0, 400);
  };
  Recipe virtually = external;
  virtually.creation = [](hid_t creation) {
    const hsize_t rows = 100;
    const hid_t space = H5Screate_simple(1, &rows, nullptr);
    H5Pset_virtual(creation, space, "/etc/hostname", "x", space);
    H5Sclose(space);
  };
  return {
      array_case("Scalar", scalar, ": rank 0" + rank),
      array_case("RankTwo", {.dims = {10, 10}, .most = {100, 10}, .chunk = {5, 5}},
                 ": rank 2" + rank),
      array_case("RankThree", {.dims = {4, 4, 4}, .most = {8, 4, 4}, .chunk = {2, 2, 2}},
                 ": rank 3" + rank),
      array_case("Contiguous", contiguous, no_chunks),
      array_case("Compact", compact, no_chunks),
      array_case("ExternalStorage", external, ": external storage is not read"),
      array_case("ExternalStorageOfFloats", external_floats, ": external storage is not read"),
      array_case("Virtual", virtually, ": virtual storage is not read"),
      array_case("Unlimited", {.most = {H5S_UNLIMITED}},
                 ": the chunks are indexed by an extensible array" + index),
      array_case("SingleChunk", {.dims = {10}, .most = {10}},
                 ": the chunks are indexed by a single chunk" + index),
      array_case("MissingChunks", {.write = false}, ": no row was written"),
      array_case("HugeChunks", {.dims = {1}, .most = {4 << 20}, .chunk = {3 << 20}},
                 ": chunks of 3145728 rows; 1 to 2097152 are read"),
  };
}

/// A custom filter, which would need a plugin.
void add_own_filter(hid_t creation) {
  const auto keep = [](unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                       void**) { return bytes; };
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, 32100, 1, 1, "own", nullptr, nullptr, keep};
  H5Zregister(&filter);
  H5Pset_filter(creation, 32100, 0, 0, nullptr);
  H5Pset_deflate(creation, 6);
  H5Pset_fletcher32(creation);
}

std::vector<Case> filter_cases() {
  return {
      array_case("NoFilters", {.shuffle = false, .deflate = false, .fletcher32 = false},
                 ": has no filters; shuffle, deflate and fletcher32 expected"),
      array_case("DeflateAlone", {.shuffle = false, .fletcher32 = false},
                 ": number of filters is 1; only 3 is read"),
      array_case("ScaleOffset", {.deflate = false, .scale = true},
                 ": filter 1 is number 3; only deflate is read there"),
      array_case("FourFilters", {.scale = true}, ": number of filters is 4; only 3 is read"),
      array_case(
          "UnknownFilter",
          {.shuffle = false, .deflate = false, .fletcher32 = false, .creation = add_own_filter},
          ": filter 0 is number 32100; only shuffle is read there"),
  };
}

void add_attribute(hid_t object) {
  const hid_t space = H5Screate(H5S_SCALAR);
  H5Aclose(H5Acreate2(object, "note", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(space);
}

hid_t without_times(hid_t list_class) {
  const hid_t list = H5Pcreate(list_class);
  H5Pset_obj_track_times(list, false);
  return list;
}

std::vector<Case> object_cases() {
  return {
      {"SoftLink",
       [](hid_t file) { H5Lcreate_soft("/elsewhere", file, "x", H5P_DEFAULT, H5P_DEFAULT); },
       "root group: x is a soft link; only arrays are read"},
      {"ExternalLink",
       [](hid_t file) {
         H5Lcreate_external("/etc/passwd", "/", file, "x", H5P_DEFAULT, H5P_DEFAULT);
       },
       "root group: x is an external link; only arrays are read"},
      {"Group",
       [](hid_t file) {
         H5Gclose(H5Gcreate2(file, "x", H5P_DEFAULT, without_times(H5P_GROUP_CREATE), H5P_DEFAULT));
       },
       "array x is a group; only arrays are read"},
      {"CycleOfGroups",
       [](hid_t file) { H5Lcreate_hard(file, "/", file, "x", H5P_DEFAULT, H5P_DEFAULT); },
       "root group: objects with several links are not read"},
      {"NamedType",
       [](hid_t file) {
         const hid_t type = H5Tcopy(H5T_STD_U16LE);
         H5Tcommit2(file, "x", type, H5P_DEFAULT, without_times(H5P_DATATYPE_CREATE), H5P_DEFAULT);
         H5Tclose(type);
       },
       "array x: its header is incomplete"},
      {"AttributeOfTheRoot", [](hid_t file) { add_attribute(file); },
       "root group: attributes are not read"},
      {"AttributeOfAnArray",
       [](hid_t file) {
         add_array(file, "x", {});
         const hid_t array = H5Dopen2(file, "x", H5P_DEFAULT);
         add_attribute(array);
         H5Dclose(array);
       },
       "array x: attributes are not read"},
      {"ManyLinks",
       [](hid_t file) {
         for (int i = 0; i < 20; ++i)
           H5Lcreate_soft("/", file, ("x" + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT);
       },
       "root group: links outside of the group's header are not read"},
  };
}

TEST(Hdf5Hostile, RefusesWhatIsNoPlainArray) {
  const TemporaryFolder folder;
  for (const auto& cases : {type_cases(), shape_cases(), filter_cases(), object_cases()}) {
    for (const auto& [name, fill, message] : cases) {
      make_file(folder / "x.h5", fill);
      EXPECT_EQ(refusal(folder / "x.h5"), message) << name;
    }
  }
}

TEST(Hdf5Hostile, RefusesBombs) {
  const TemporaryFolder folder;
  make_file(folder / "x.h5", [](hid_t file) {
    add_array(file, "x",
              {.type = H5T_STD_U8LE, .dims = {8 << 20}, .most = {12 << 20}, .chunk = {4 << 20}});
  });
  const std::string message = refusal(folder / "x.h5");
  EXPECT_TRUE(message.starts_with("array x: declares 8388608 bytes and stores 8") &&
              message.ends_with("; at most 1000 times as many are read"))
      << message;
}

TEST(Hdf5Hostile, RefusesOtherFormats) {
  const TemporaryFolder folder;
  const auto path = folder / "x.h5";
  const auto add_default = [](hid_t file) { add_array(file, "x", {}); };
  make_file(path, add_default, H5F_LIBVER_EARLIEST);
  EXPECT_EQ(refusal(path), "superblock: version is 0; only 3 is read");
  make_file(path, add_default, H5F_LIBVER_V110, 512);
  EXPECT_EQ(refusal(path), "not an HDF5 file");
  write_bytes(path, "");
  EXPECT_EQ(refusal(path), "not an HDF5 file: 0 bytes are too few");
  write_bytes(path, std::string(1000, 'x'));
  EXPECT_EQ(refusal(path), "not an HDF5 file");
  EXPECT_EQ(refusal(folder.path()), "is not a regular file");
}

class EditedHdf5 : public ::testing::Test {
 protected:
  void SetUp() override {
    make_file(path_, [](hid_t file) { add_array(file, "x", {.dims = {95}}); });
    original_ = read_bytes(path_);
    ASSERT_EQ(read_all(path_), std::string(190, '\0'));
  }

  std::string after(const std::string& bytes) {
    write_bytes(path_, bytes);
    return refusal(path_);
  }
  /// The error after `edit`, with all checksums corrected.
  std::string after_edit(const std::function<void(std::string&)>& edit) {
    std::string bytes = original_;
    edit(bytes);
    testing::seal_all(bytes);
    return after(bytes);
  }
  std::size_t find(const std::string& signature) const { return original_.rfind(signature); }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "x.h5";
  std::string original_;
};

TEST_F(EditedHdf5, EveryTruncationIsFound) {
  for (std::size_t size = 0; size < original_.size(); ++size)
    EXPECT_NE(after(original_.substr(0, size)), "no error") << size;
  const std::string size = std::to_string(original_.size());
  EXPECT_EQ(after(original_.substr(0, 100)),
            "the file has 100 bytes, its superblock says " + size + ": it is cut short or damaged");
}

TEST_F(EditedHdf5, EveryFlippedBitIsFoundOrHarmless) {
  int found = 0;
  for (std::size_t byte = 0; byte < original_.size(); ++byte) {
    // Two bits of each byte, which differ between bytes.
    for (const std::size_t bit : {byte % 8, (byte + 3) % 8}) {
      std::string bytes = original_;
      bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
      const std::string message = after(bytes);
      if (message == "no error") {
        EXPECT_EQ(read_all(path_), std::string(190, '\0')) << byte << " " << bit;
      } else {
        ++found;
      }
    }
  }
  EXPECT_GT(found, 3000);
}

TEST_F(EditedHdf5, LiesBehindRightChecksumsAreFound) {
  const std::size_t header = find("OHDR"), index = find("FAHD"), entries = find("FADB"),
                    rows = header + 16;
  ASSERT_EQ(number_at<std::uint64_t>(original_, rows), 95);
  const auto at = [&](std::size_t place, auto value) {
    return after_edit([&](std::string& bytes) { put_number(bytes, place, value); });
  };
  const auto all = ~std::uint64_t{0};
  const std::string chunks = "array x, chunk list",
                    index_of = "array x, chunk index: ", damaged = ": the file is damaged";
  const std::string outside = " lies outside of the file of " + std::to_string(original_.size()) +
                              " bytes: it is cut short or damaged";
  EXPECT_EQ(at(rows, all), "array x: 18446744073709551615 rows; at most 1099511627776 are read");
  EXPECT_EQ(at(rows, std::uint64_t{1} << 40), chunks + " does not belong to its index" + damaged);
  EXPECT_EQ(at(rows, std::uint64_t{1001}), chunks + " does not belong to its index" + damaged);
  EXPECT_EQ(at(rows, std::uint64_t{101}), chunks + ": a chunk is missing");
  EXPECT_EQ(at(index + 6, std::uint8_t{255}), index_of + "entries of 255 bytes in pages of 2^10");
  EXPECT_EQ(at(index + 7, std::uint8_t{255}), index_of + "entries of 14 bytes in pages of 2^255");
  EXPECT_EQ(at(index + 7, std::uint8_t{0}), chunks + ": a chunk lies outside of the file");
  EXPECT_EQ(at(index + 8, all), index_of + "18446744073709551615 entries are too many");
  EXPECT_EQ(at(index + 8, std::uint64_t{1} << 24), chunks + outside);
  EXPECT_EQ(at(index + 16, all), chunks + outside);
  EXPECT_EQ(at(entries + 6, all), chunks + " does not belong to its index" + damaged);
  EXPECT_EQ(at(entries + 14, all - 1), chunks + ": a chunk lies outside of the file");
  EXPECT_EQ(at(entries + 22, std::uint8_t{0}), chunks + ": a chunk of 0 stored bytes");
  EXPECT_EQ(at(entries + 22, std::uint16_t{0xffff}), chunks + ": a chunk lies outside of the file");
  EXPECT_EQ(at(entries + 24, std::uint8_t{1}), chunks + ": a chunk without its filters");
  EXPECT_EQ(at(std::size_t{11}, std::uint8_t{1}), "the file was not closed by its writer");
  EXPECT_EQ(at(std::size_t{12}, all),
            "superblock: base address is 18446744073709551615; only 0 is read");
  EXPECT_EQ(at(std::size_t{20}, std::uint64_t{0}), "superblock extensions are not read");
  EXPECT_EQ(at(std::size_t{36}, all), "root group" + outside);
  EXPECT_EQ(at(std::size_t{36}, static_cast<std::uint64_t>(index)),
            "root group does not start with OHDR" + damaged);
  std::string unsealed = original_;
  unsealed[entries + 14] ^= 1;
  EXPECT_EQ(after(unsealed), chunks + " does not fit its checksum" + damaged);
  const auto first_chunk =
      static_cast<std::size_t>(number_at<std::uint64_t>(original_, entries + 14));
  EXPECT_EQ(at(first_chunk, std::uint8_t{0}), "array x, chunk 0 cannot be unpacked" + damaged);
  std::string flipped = original_;
  flipped[first_chunk] ^= 1;
  EXPECT_EQ(after(flipped), "array x, chunk 0 does not fit its checksum" + damaged);
}

}  // namespace
}  // namespace nystrom
