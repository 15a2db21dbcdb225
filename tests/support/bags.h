// Bags of features as files, and a toy task on them.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/support/array_file.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {

/// Writes `features` [rows, width], and `coords` on a grid 10 wide, as other programs do. With
/// `chunk_rows` the arrays can grow and have chunks of as many rows.
inline void write_bag(const std::filesystem::path& path, hsize_t width,
                      const std::vector<double>& features, hid_t type = H5T_IEEE_F32LE,
                      hsize_t chunk_rows = 32) {
  const hsize_t rows = features.size() / width;
  std::vector<double> coords;
  for (hsize_t i = 0; i < rows; ++i) {
    coords.push_back(static_cast<double>(256 * (i % 10)));
    coords.push_back(static_cast<double>(256 * (i / 10)));
  }
  const bool grows = chunk_rows > 0;
  const auto chunks_of = [&](hsize_t columns) {
    return grows ? in_chunks({chunk_rows, columns}) : ArrayFile::Create();
  };
  ArrayFile(path)
      .add("features", type, {rows, width}, features, chunks_of(width), grows)
      .add("coords", H5T_STD_I64LE, {rows, 2}, coords, chunks_of(2), grows);
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
