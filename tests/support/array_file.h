// HDF5 files as other programs write them.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "core/dtype.h"

namespace nystrom::testing {

/// The half-precision type of HDF5 files.
inline hid_t half_type() {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

/// A new file of arrays. The destructor closes it.
class ArrayFile {
 public:
  using Create = std::function<void(hid_t)>;

  explicit ArrayFile(const std::filesystem::path& path, hid_t access = H5P_DEFAULT,
                     hid_t creation = H5P_DEFAULT)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access)) {}
  ~ArrayFile() { H5Fclose(file_); }
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;
  hid_t file() const { return file_; }

  /// Adds an array; without values nothing is written into it. `create` changes its properties.
  /// With `grows` its first axis has no end.
  ArrayFile& add(const char* name, hid_t type, const std::vector<hsize_t>& shape,
                 const std::vector<double>& values, const Create& create = {}, bool grows = false) {
    std::vector<hsize_t> most = shape;
    if (grows) most[0] = H5S_UNLIMITED;
    const hid_t options = H5Pcreate(H5P_DATASET_CREATE),
                space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), most.data());
    if (create) create(options);
    const hid_t set = H5Dcreate2(file_, name, type, space, H5P_DEFAULT, options, H5P_DEFAULT);
    EXPECT_GE(set, 0);
    const hid_t half = half_type();
    if (H5Tequal(type, half) > 0) {  // the library's own conversion is slow
      std::vector<f16> halves;
      for (const double value : values) halves.emplace_back(static_cast<float>(value));
      EXPECT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, halves.data()), 0);
    } else if (!values.empty()) {
      EXPECT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    }
    H5Tclose(half);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(options);
    return *this;
  }

 private:
  hid_t file_;
};

/// The property of chunks of these sizes, and others.
inline ArrayFile::Create in_chunks(const std::vector<hsize_t>& sizes,
                                   const ArrayFile::Create& others = {}) {
  return [=](hid_t options) {
    H5Pset_chunk(options, static_cast<int>(sizes.size()), sizes.data());
    if (others) others(options);
  };
}

/// `first`, and each further number 0.5 larger.
inline std::vector<double> counting(std::size_t count, double first = 0) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(first + 0.5 * static_cast<double>(i));
  return values;
}

}  // namespace nystrom::testing
