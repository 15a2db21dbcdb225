// How the fused attention kernels divide their loops. Plans of steps use it without a GPU.
#pragma once

#include <cstdint>

namespace nystrom::cuda {

/// The rows of a tile of queries or keys.
inline constexpr int tile_rows = 64;

/// The number of parts of a loop over `tiles` tiles, so that `blocks` blocks a part fill a GPU. It
/// depends on sizes only, so that all GPUs compute the same sums.
inline std::int64_t splits_of(std::int64_t blocks, std::int64_t tiles) {
  constexpr std::int64_t enough = 132 * 4, min_tiles = 4;
  const std::int64_t wanted = (enough + blocks - 1) / blocks, most = tiles / min_tiles;
  return wanted < most ? wanted : most > 1 ? most : 1;
}

}  // namespace nystrom::cuda
