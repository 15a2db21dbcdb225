// Bags of features as files, and a toy task on them.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {

/// The half-precision type of HDF5 files.
inline hid_t half_type() {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

/// Writes an array of an HDF5 file. With `chunk_rows` it can grow and has chunks of as many rows.
inline void put(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape,
                const std::vector<double>& values, hsize_t chunk_rows = 0) {
  const hid_t options = H5Pcreate(H5P_DATASET_CREATE);
  std::vector<hsize_t> most = shape, chunk = shape;
  if (chunk_rows > 0) {
    most[0] = H5S_UNLIMITED;
    chunk[0] = chunk_rows;
    H5Pset_chunk(options, static_cast<int>(chunk.size()), chunk.data());
  }
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), most.data());
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, options, H5P_DEFAULT);
  if (H5Tequal(type, H5T_STD_I64LE) > 0 || H5Tget_size(type) != 2) {
    EXPECT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  } else {
    std::vector<f16> halves;
    for (const double value : values) halves.emplace_back(static_cast<float>(value));
    EXPECT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, halves.data()), 0);
  }
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(options);
}

/// Writes `features` [rows, width], and `coords` on a grid 10 wide, as other programs do.
inline void write_bag(const std::filesystem::path& path, hsize_t width,
                      const std::vector<double>& features, hid_t type = H5T_IEEE_F32LE,
                      hsize_t chunk_rows = 32) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t rows = features.size() / width;
  put(file, "features", type, {rows, width}, features, chunk_rows);
  std::vector<double> coords;
  for (hsize_t i = 0; i < rows; ++i) {
    coords.push_back(static_cast<double>(256 * (i % 10)));
    coords.push_back(static_cast<double>(256 * (i / 10)));
  }
  put(file, "coords", H5T_STD_I64LE, {rows, 2}, coords, chunk_rows);
  H5Fclose(file);
}

/// The rows of a bag that carry the signal: 1 of 20, from row 3 on.
inline bool has_signal(std::size_t row) { return row % 20 == 3; }

/// Writes `count` bags of 20 to 80 rows, 4 wide, as f16, and slides.csv with the columns id, label
/// and patient (two bags each). In bags of label "tumor" the first number of 5 % of the rows is
/// large.
inline void write_bags(const std::filesystem::path& folder, int count, std::uint32_t seed) {
  std::filesystem::create_directories(folder / "bags");
  std::minstd_rand random(seed);
  std::normal_distribution<double> normal;
  std::string table = "id,label,patient\n";
  for (int i = 0; i < count; ++i) {
    const bool tumor = i / 2 % 2 == 1;
    std::vector<double> features;
    const std::size_t rows = 20 + random() % 61;
    for (std::size_t row = 0; row < rows; ++row)
      for (int column = 0; column < 4; ++column)
        features.push_back(normal(random) + (tumor && column == 0 && has_signal(row) ? 10 : 0));
    write_bag(folder / "bags" / ("s" + std::to_string(i) + ".h5"), 4, features, half_type());
    table += "s" + std::to_string(i) + "," + (tumor ? "tumor" : "normal") + ",p" +
             std::to_string(i / 2) + "\n";
  }
  write_bytes(folder / "slides.csv", table);
}

}  // namespace nystrom::testing
