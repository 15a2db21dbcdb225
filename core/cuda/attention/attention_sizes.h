// How the fused attention kernels divide their loops, and the shared memory that they need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace nystrom::cuda {

/// The rows of a tile of queries or keys.
inline constexpr int tile_rows = 64;

/// The number of parts of a loop over `tiles` tiles, so that `blocks` blocks a part fill a GPU. It
/// depends on sizes only, so that all GPUs compute the same sums.
inline std::int64_t splits_of(std::int64_t blocks, std::int64_t tiles) {
  // Two blocks on each of an H100's multiprocessors run at once, at least two times.
  constexpr std::int64_t at_once = 132 * 2, enough = 2 * at_once, min_tiles = 4;
  if (blocks == 0) return 1;
  const std::int64_t wanted = (enough + blocks - 1) / blocks,
                     most = std::max<std::int64_t>(1, tiles / min_tiles);
  if (wanted == 1 || wanted >= most) return std::min(wanted, most);
  // A last time with few blocks leaves the GPU idle: of up to twice as many parts, the number with
  // the least of it.
  const auto share_used = [&](std::int64_t splits) {
    const std::int64_t all = blocks * splits;
    return static_cast<double>(all) / static_cast<double>((all + at_once - 1) / at_once * at_once);
  };
  std::int64_t best = wanted;
  for (std::int64_t splits = wanted + 1; splits <= std::min(2 * wanted, most); ++splits)
    if (share_used(splits) > share_used(best)) best = splits;
  return best;
}

/// The rows of a convolution's result that a warp computes.
inline constexpr int strip = 16;
/// The number of 16-row groups of x that a strip of the result reads.
constexpr int groups_of(std::int64_t taps) {
  return static_cast<int>((taps + 2 * strip - 2) / strip);
}
/// The rows of x that `rows` rows of the result read.
constexpr int conv_rows(int rows, std::int64_t taps) {
  return rows + (groups_of(taps) - 1) * strip;
}
/// The taps between zeros, or the diagonals of all products of a strip.
constexpr int band_size(std::int64_t taps) { return (groups_of(taps) + 1) * strip; }

/// The bytes of rows of 16-bit numbers. Rows have 8 extra numbers, which avoids bank conflicts of
/// ldmatrix.
constexpr std::size_t bytes_of_rows(int rows, std::int64_t width) {
  return 2 * static_cast<std::size_t>(rows) * static_cast<std::size_t>(width + 8);
}
/// The bytes in which `warps` warps sum the gradients of taps: for each a product of 16 × 16 (rows
/// 17 apart), and a sum for every diagonal.
constexpr std::size_t bytes_of_tap_sums(int warps, std::int64_t taps) {
  return sizeof(float) * static_cast<std::size_t>(warps * (strip * (strip + 1) + band_size(taps)));
}

/// The shared memory of a tile of keys: with their values, and a mask.
constexpr std::size_t bytes_of_keys(std::int64_t width) {
  return 2 * bytes_of_rows(tile_rows, width) + tile_rows;
}
/// The shared memory of the forward kernel: queries, and keys for each stage.
constexpr std::size_t bytes_of_forward(std::int64_t width, int stages) {
  return bytes_of_rows(tile_rows, width) + static_cast<std::size_t>(stages) * bytes_of_keys(width);
}
/// That of the kernel for one tile of keys: queries for each stage; with taps also the rows that
/// the convolution reads, and its band.
constexpr std::size_t bytes_of_few_keys(std::int64_t width, int stages, std::int64_t taps) {
  const int rows = tile_rows + (taps > 0 ? conv_rows(tile_rows, taps) : 0);
  return bytes_of_keys(width) + static_cast<std::size_t>(stages) * bytes_of_rows(rows, width) +
         (taps > 0 ? 2 * static_cast<std::size_t>(band_size(taps)) : 0);
}
/// The shared memory of a tile of the backward kernel: rows of two operands, two numbers of each
/// query, and the mask of keys.
constexpr std::size_t bytes_of_tile(std::int64_t width) {
  return 2 * bytes_of_rows(tile_rows, width) + (2 * sizeof(float) + 1) * tile_rows;
}
/// The shared memory of the backward kernel: P and dS, the own tile and one for each stage. With
/// taps, each stage also holds rows of dy; and there are the sums of the taps and the band.
constexpr std::size_t bytes_of_backward(std::int64_t width, int stages, std::int64_t taps) {
  const auto count = static_cast<std::size_t>(stages);
  const std::size_t tiles =
      2 * bytes_of_rows(tile_rows, tile_rows) + (1 + count) * bytes_of_tile(width);
  const std::size_t conv = count * bytes_of_rows(conv_rows(tile_rows, taps), width) +
                           bytes_of_tap_sums(tile_rows / strip, taps) +
                           2 * static_cast<std::size_t>(band_size(taps));
  return tiles + (taps > 0 ? conv : 0);
}

}  // namespace nystrom::cuda
