// HDF5 files that need more than themselves, hold no numbers, lie or are damaged. Each is rejected
// with a message that names the problem.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "data/hdf5/hdf5.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Create = std::function<void(hid_t)>;

/// Adds an array of zeros of one axis.
void add_array(hid_t file, hid_t type = H5T_STD_U16LE, hsize_t rows = 100,
               const Create& create = {}, const char* name = "x") {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &rows, nullptr);
  if (create) create(creation);
  const hid_t array = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ASSERT_GE(array, 0);
  const std::string zeros(rows * H5Tget_size(type), '\0');
  H5Dwrite(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
  H5Dclose(array);
  H5Sclose(space);
  H5Pclose(creation);
}

/// Creates a file with the HDF5 library; `fill` adds its content.
void make_file(const std::filesystem::path& path, const std::function<void(hid_t)>& fill) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  fill(file);
  H5Fclose(file);
}

/// Reads all numbers of the array x.
std::vector<double> read_all(const std::filesystem::path& path) {
  const Hdf5File file(std::make_shared<const InputFile>(InputFile::open(path)));
  const std::optional<Hdf5Array> array = file.find("x", 1 << 20);
  if (!array) throw InputError("no array");
  const std::vector<std::int64_t> first(array->shape().size());
  std::vector<double> values(static_cast<std::size_t>(std::accumulate(
      array->shape().begin(), array->shape().end(), std::int64_t{1}, std::multiplies())));
  array->read(first, array->shape(), values);
  return values;
}

/// The error of reading the file, without the file name at its start.
std::string refusal(const std::filesystem::path& path) {
  const std::string message = input_error([&] { read_all(path); });
  const std::string name = path.string() + ": ";
  return message.starts_with(name) ? message.substr(name.size()) : message;
}

hid_t compound_type() {
  const hid_t type = H5Tcreate(H5T_COMPOUND, 2);
  H5Tinsert(type, "a", 0, H5T_STD_U16LE);
  return type;
}

hid_t enum_type() {
  const hid_t type = H5Tenum_create(H5T_STD_I8LE);
  const signed char one = 1;
  H5Tenum_insert(type, "TRUE", &one);
  return type;
}

class Hdf5Hostile : public FolderTest {
 protected:
  const std::filesystem::path path_ = folder_ / "x.h5";
};

TEST_F(Hdf5Hostile, RefusesWhatHoldsNoNumbers) {
  for (const auto& [type, name] :
       {std::pair(H5T_C_S1, "strings"), std::pair(H5Tcreate(H5T_OPAQUE, 2), "opaque values"),
        std::pair(H5T_STD_B16LE, "bit fields"), std::pair(compound_type(), "compound values"),
        std::pair(enum_type(), "enums (such as NumPy's bool)"),
        std::pair(H5T_STD_REF_OBJ, "references")}) {
    make_file(path_, [of = type](hid_t file) { add_array(file, of); });
    EXPECT_EQ(refusal(path_), std::string("'x': the elements are ") + name +
                                  "; only integers and floating-point numbers are read");
  }
  make_file(path_, [](hid_t file) {
    H5Gclose(H5Gcreate2(file, "x", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  EXPECT_EQ(refusal(path_), "'x': is a group, expected an array");
  make_file(path_, [](hid_t file) {
    const hid_t space = H5Screate(H5S_NULL);
    H5Dclose(H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  });
  EXPECT_EQ(refusal(path_), "'x': it is empty");
}

/// As xarray and GDAL write them.
TEST_F(Hdf5Hostile, RefusesPackedAndMissingNumbers) {
  const auto refusal_of = [&](const char* attribute, double value) {
    make_file(path_, [&](hid_t file) {
      add_array(file);
      const hid_t array = H5Dopen2(file, "x", H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
      const hid_t id =
          H5Acreate2(array, attribute, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(id, H5T_NATIVE_DOUBLE, &value);
      H5Aclose(id);
      H5Sclose(space);
      H5Dclose(array);
    });
    return refusal(path_);
  };
  EXPECT_EQ(refusal_of("scale_factor", 0.5),
            "'x': its numbers are packed (scale_factor 0.5, add_offset 0); write them unpacked");
  EXPECT_EQ(refusal_of("add_offset", 5),
            "'x': its numbers are packed (scale_factor 1, add_offset 5); write them unpacked");
  EXPECT_EQ(refusal_of("_FillValue", 0),
            "'x': holds 0, which its attributes call missing; leave such rows out, or fill them");
  EXPECT_EQ(refusal_of("_FillValue", -1), "no error");
  EXPECT_EQ(refusal_of("scale_factor", 1), "no error");
}

/// No link and no storage leads into another file, though it exists and has the array.
TEST_F(Hdf5Hostile, NeverReadsOtherFiles) {
  const auto other = folder_ / "other.h5";
  make_file(other, [](hid_t file) { add_array(file); });
  make_file(path_, [&](hid_t file) {
    H5Lcreate_external(other.c_str(), "/x", file, "x", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(refusal(path_),
            "'x': it lies in another file, which is not read; copy it into this file");
  make_file(path_, [&](hid_t file) {
    H5Lcreate_external(other.c_str(), "/x", file, "y", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/y", file, "x", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(refusal(path_).starts_with("'x' cannot be read: ")) << refusal(path_);
  const std::string elsewhere =
      "'x': external and virtual storage are not read; copy the data into an array of its own";
  make_file(path_, [&](hid_t file) {
    add_array(file, H5T_STD_U16LE, 100, [&](hid_t creation) {
      H5Pset_external(creation, (folder_ / "raw").c_str(), 0, 200);
    });
  });
  EXPECT_EQ(refusal(path_), elsewhere);
  make_file(path_, [&](hid_t file) {
    add_array(file, H5T_STD_U16LE, 100, [&](hid_t creation) {
      const hsize_t rows = 100;
      const hid_t space = H5Screate_simple(1, &rows, nullptr);
      H5Pset_virtual(creation, space, other.c_str(), "x", space);
      H5Sclose(space);
    });
  });
  EXPECT_EQ(refusal(path_), elsewhere);
}

void in_chunks(hid_t creation, hsize_t rows) { H5Pset_chunk(creation, 1, &rows); }

/// A filter that a plugin would bring.
TEST_F(Hdf5Hostile, NamesFiltersThatAreNotBuiltIn) {
  const auto keep = [](unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                       void**) { return bytes; };
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, 32100, 1, 1, "own", nullptr, nullptr, keep};
  H5Zregister(&filter);
  make_file(path_, [](hid_t file) {
    add_array(file, H5T_STD_U16LE, 100, [](hid_t creation) {
      in_chunks(creation, 10);
      H5Pset_filter(creation, 32100, 0, 0, nullptr);
    });
  });
  H5Zunregister(32100);
  EXPECT_EQ(refusal(path_),
            "'x': packed with filter 32100 (own), which is not built in; write it with "
            "compression='gzip'");
}

TEST_F(Hdf5Hostile, RefusesSizesBeforeItReservesMemory) {
  const auto make = [&](hid_t type, hsize_t rows, hsize_t chunk) {
    make_file(path_, [&](hid_t file) {
      const hid_t creation = H5Pcreate(H5P_DATASET_CREATE),
                  space = H5Screate_simple(1, &rows, nullptr);
      in_chunks(creation, chunk);
      H5Pset_deflate(creation, 9);
      const hid_t array = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
      ASSERT_GE(array, 0);
      const hsize_t one = 1, first = 0;
      const hid_t memory = H5Screate_simple(1, &one, nullptr);
      H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, nullptr, &one, nullptr);
      const unsigned char value = 1;
      if (chunk <= 1 << 20) H5Dwrite(array, H5T_NATIVE_UCHAR, memory, space, H5P_DEFAULT, &value);
      H5Sclose(memory);
      H5Sclose(space);
      H5Dclose(array);
      H5Pclose(creation);
    });
    return refusal(path_);
  };
  EXPECT_EQ(make(H5T_STD_U8LE, hsize_t{1} << 40, 1 << 10).substr(0, 33),
            "'x': declares 1099511627776 bytes");
  EXPECT_EQ(make(H5T_STD_U64LE, hsize_t{1} << 60, 1 << 10),
            "'x': its sizes overflow: the file is damaged");
  EXPECT_EQ(make(H5T_STD_U8LE, hsize_t{1} << 29, hsize_t{1} << 29),
            "'x': its chunks have [536870912] elements of 1 bytes; at most 256 MiB are read");
  EXPECT_EQ(make(H5T_STD_U8LE, 1000, 1000), "no error");
}

TEST_F(Hdf5Hostile, RefusesOtherFormats) {
  write_bytes(path_, "");
  EXPECT_EQ(refusal(path_), "not an HDF5 file");
  write_bytes(path_, std::string(1000, 'x'));
  EXPECT_EQ(refusal(path_), "not an HDF5 file");
  EXPECT_EQ(refusal(folder_.path()), "is not a regular file");
  make_file(path_, [](hid_t file) { add_array(file, H5T_STD_U16LE, 100, {}, "other"); });
  EXPECT_EQ(refusal(path_), "no array");
}

/// A file as the writer writes it, with a chunk that is not full.
class DamagedHdf5 : public Hdf5Hostile {
 protected:
  void SetUp() override {
    Hdf5Writer file(path_);
    file.add("x", StoredInteger::u16, 10, 100);
    const std::vector<std::uint16_t> zeros(95);
    file.append("x", std::as_bytes(std::span(zeros)));
    file.commit();
    original_ = read_bytes(path_);
    ASSERT_EQ(read_all(path_), std::vector<double>(95));
  }
  std::string after(const std::string& bytes) {
    write_bytes(path_, bytes);
    return refusal(path_);
  }

  std::string original_;
};

TEST_F(DamagedHdf5, EveryTruncationIsFound) {
  for (std::size_t size = 0; size < original_.size(); ++size)
    EXPECT_NE(after(original_.substr(0, size)), "no error") << size;
  EXPECT_TRUE(
      after(original_.substr(0, 100)).starts_with("the file cannot be read: truncated file: "));
}

TEST_F(DamagedHdf5, EveryFlippedBitIsFoundOrHarmless) {
  int found = 0;
  for (std::size_t byte = 0; byte < original_.size(); ++byte) {
    // Two bits of each byte, which differ between bytes.
    for (const std::size_t bit : {byte % 8, (byte + 3) % 8}) {
      std::string bytes = original_;
      bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
      const std::string message = after(bytes);
      if (message == "no array") {
        const Hdf5File file(std::make_shared<const InputFile>(InputFile::open(path_)));
        EXPECT_EQ(std::ranges::count(file.names(), "x"), 0) << byte << " " << bit;
      }
      if (message == "no error") {
        EXPECT_EQ(read_all(path_), std::vector<double>(95)) << byte << " " << bit;
      } else {
        ++found;
      }
    }
  }
  EXPECT_GT(found, 1000);
}

/// The search finds a name by the last one of each node, the list goes through all.
TEST_F(Hdf5Hostile, AGroupThatHidesANameIsDamaged) {
  make_file(path_, [](hid_t file) {
    for (const char* name : {"w", "x"}) add_array(file, H5T_STD_U16LE, 100, {}, name);
  });
  std::string bytes = read_bytes(path_);
  bytes.at(bytes.find("TREE") + 43) = '\xff';  // in the place of the name "x", as the last one
  write_bytes(path_, bytes);
  EXPECT_EQ(refusal(path_), "'x': its group lists it, and does not find it: the file is damaged");
}

}  // namespace
}  // namespace nystrom
