// Tiles of the fused attention kernels, 64 rows of T (bf16 or f16) in shared memory, and the
// operations of a warp on them.
#pragma once

#include <algorithm>

#include "core/cuda/approximate.cuh"
#include "core/cuda/attention/attention_problem.cuh"
#include "core/cuda/products/mma.cuh"

namespace nystrom::cuda {

// ---- How the kernels divide their loops, and the shared memory that they need -------------------

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

// ---- Tiles --------------------------------------------------------------------------------------

inline constexpr int fused_block = 128;  // four warps, 16 rows each
inline constexpr float log2_e = 1.44269504f, ln_2 = 0.693147181f;

/// The numbers from one row of a tile to the next.
template <int Width>
inline constexpr int tile_stride = static_cast<int>(bytes_of_rows(1, Width)) / 2;
template <int Width>
inline constexpr int tile_size = tile_rows* tile_stride<Width>;

/// The work of a block of the grid: a tile of one part of a head. Tiles vary fastest.
struct Block {
  int tile;
  std::int64_t split, head;
  NYSTROM_DEVICE Block(std::int64_t heads, std::int64_t splits) {
    const auto tiles = static_cast<int>(gridDim.x / heads / splits);
    tile = static_cast<int>(blockIdx.x) % tiles;
    split = blockIdx.x / tiles % splits;
    head = blockIdx.x / tiles / splits;
  }
};

/// The keys that queries of a tile see, all or those within reach, as tiles of the keys' rows. Seen
/// from a tile of keys it is the queries.
template <bool Local>
struct SeenTiles {
  int first = 0, last;  ///< the tiles first … last − 1
  int own, reach;       ///< the first row of the tile; the reach, of which 2³⁰ is all

  NYSTROM_DEVICE SeenTiles(int own_row, int rows, std::int64_t distance)
      : last((rows + tile_rows - 1) / tile_rows),
        own(own_row),
        reach(distance < 1 << 30 ? static_cast<int>(distance) : 1 << 30) {
    if constexpr (Local) {
      first = own > reach ? (own - reach) / tile_rows : 0;
      const int end = (own + tile_rows - 1 + reach) / tile_rows + 1;
      if (end < last) last = end;
    }
  }
  /// The first tile of part `split` of `splits`, which ends before that of the next part.
  NYSTROM_DEVICE int begin(std::int64_t split, std::int64_t splits) const {
    return first + static_cast<int>(split * (last - first) / splits);
  }
  /// Whether `row` of the own tile sees `other_row` of another tile.
  NYSTROM_DEVICE bool operator()(int row, int tile, int other_row) const {
    if constexpr (!Local) return true;
    const int distance = own + row - tile * tile_rows - other_row;
    return distance <= reach && -distance <= reach;
  }
};

/// A warp's 16 × Columns result, in fragments of 8 columns.
template <int Columns>
struct Accumulator {
  float part[Columns / 8][4];
  NYSTROM_DEVICE void clear() {
    NYSTROM_UNROLL
    for (int n = 0; n < Columns / 8; ++n) {
      NYSTROM_UNROLL
      for (int i = 0; i < 4; ++i) part[n][i] = 0;
    }
  }
};

/// A warp's 16 × Columns left operand.
template <int Columns>
struct LeftOperand {
  std::uint32_t part[Columns / 16][4];
};

/// Eight f32 numbers of a row, rounded to T.
template <class T>
NYSTROM_DEVICE Pack<std::uint32_t, 4> load_eight(const Mixed<float, true>& numbers,
                                                 std::int64_t at) {
  const auto* source = static_cast<const float*>(numbers.data) + at;
  const auto first = load_pack<4>(source), second = load_pack<4>(source + 4);
  return {{pack<T>(first.value[0], first.value[1]), pack<T>(first.value[2], first.value[3]),
           pack<T>(second.value[0], second.value[1]), pack<T>(second.value[2], second.value[3])}};
}

/// Copies `rows` rows, from `first` on, by the whole block. Rows without `keep(row)` become zeros,
/// because padding may hold anything. The copy of 16-bit rows is asynchronous.
template <int Width, class T, class Keep>
NYSTROM_DEVICE void load_rows(const HeadRows<float, true>& x, int first, int rows, const Keep& keep,
                              T* tile) {
  constexpr int packs = Width / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += fused_block) {
    const int row = i / packs, column = i % packs * 8;
    const std::int64_t at = x.at(first + row) + column;
    T* target = tile + row * tile_stride<Width> + column;
    if (x.numbers.dtype == DType::f32) {
      Pack<std::uint32_t, 4> eight{};
      if (keep(first + row)) eight = load_eight<T>(x.numbers, at);
      *reinterpret_cast<Pack<std::uint32_t, 4>*>(target) = eight;
    } else {
      const bool kept = keep(first + row);
      copy_async(target, static_cast<const T*>(x.numbers.data) + (kept ? at : 0), kept);
    }
  }
}

/// The same for the rows of a tile.
template <int Width, class T, class Keep>
NYSTROM_DEVICE void load_tile(const HeadRows<float, true>& x, int first, const Keep& keep,
                              T* tile) {
  load_rows<Width>(x, first, tile_rows, keep, tile);
}

/// Loads tiles first … last − 1 with load(tile, stage), and calls use(tile, stage) when the tile
/// has arrived. Tiles are ints, which need fewer registers. With two stages the next tile is on its
/// way meanwhile. What the block wrote and copied before the call arrives with the first tile, or
/// at the end without tiles.
template <class Load, class Use>
NYSTROM_DEVICE void for_each_tile(int first, int last, int stages, const Load& load,
                                  const Use& use) {
  if (first < last) load(first, 0);
  commit_copies();
  for (int tile = first; tile < last; ++tile) {
    const int stage = stages == 2 ? (tile - first) % 2 : 0;
    const bool ahead = stages == 2 && tile + 1 < last;
    if (ahead) {
      load(tile + 1, 1 - stage);
      commit_copies();
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();
    use(tile, stage);
    __syncthreads();  // all threads have read the tile
    if (stages == 1 && tile + 1 < last) {
      load(tile + 1, 0);
      commit_copies();
    }
  }
  wait_copies<0>();
  if (first == last) __syncthreads();
}

/// The stages of a loop over `tiles` tiles of a kernel that needs `bytes(stages)` of shared memory.
template <class Bytes>
int stages_of(std::int64_t tiles, const Bytes& bytes) {
  return tiles > 1 && bytes(2) <= shared_memory_of_a_block() ? 2 : 1;
}

/// Rows 16 · warp … of a tile as a left operand.
template <int Width, class T>
NYSTROM_DEVICE void load_left(LeftOperand<Width>& a, const T* tile) {
  const int lane = lane_index();
  const T* row = tile + (warp_index() * 16 + lane % 16) * tile_stride<Width> + lane / 16 * 8;
  NYSTROM_UNROLL
  for (int k = 0; k < Width / 16; ++k) load_matrices(a.part[k], row + k * 16);
}
/// Columns 16 · warp … of a tile, transposed, as a left operand: its 64 rows become the operand's
/// columns.
template <int Width, class T>
NYSTROM_DEVICE void load_left_transposed(LeftOperand<tile_rows>& a, const T* tile) {
  const int lane = lane_index();
  const T* row =
      tile + (lane % 8 + lane / 16 * 8) * tile_stride<Width> + warp_index() * 16 + lane / 8 % 2 * 8;
  NYSTROM_UNROLL
  for (int k = 0; k < tile_rows / 16; ++k)
    load_matrices_transposed(a.part[k], row + k * 16 * tile_stride<Width>);
}

/// c += a tileᵀ: c [16, 64] of a [16, Width] and the tile's 64 rows.
template <int Width, class T>
NYSTROM_DEVICE void multiply_by_rows(Accumulator<tile_rows>& c, const LeftOperand<Width>& a,
                                     const T* tile) {
  const int lane = lane_index();
  const T* row = tile + (lane % 8 + lane / 16 * 8) * tile_stride<Width> + lane / 8 % 2 * 8;
  // The inner loop changes the sum: a product waits for the one before in the same sum.
  NYSTROM_UNROLL
  for (int k = 0; k < Width / 16; ++k) {
    NYSTROM_UNROLL
    for (int n = 0; n < tile_rows / 16; ++n) {
      std::uint32_t b[4];
      load_matrices(b, row + n * 16 * tile_stride<Width> + k * 16);
      mma<T>(c.part[2 * n], a.part[k], b[0], b[1]);
      mma<T>(c.part[2 * n + 1], a.part[k], b[2], b[3]);
    }
  }
}

/// c += a tile: c [16, Width] of a [16, 64] and the tile's 64 rows.
template <int Width, class T>
NYSTROM_DEVICE void multiply_by_columns(Accumulator<Width>& c, const LeftOperand<tile_rows>& a,
                                        const T* tile) {
  const int lane = lane_index();
  const T* row = tile + (lane % 16) * tile_stride<Width> + lane / 16 * 8;
  NYSTROM_UNROLL
  for (int k = 0; k < tile_rows / 16; ++k) {
    NYSTROM_UNROLL
    for (int n = 0; n < Width / 16; ++n) {
      std::uint32_t b[4];
      load_matrices_transposed(b, row + k * 16 * tile_stride<Width> + n * 16);
      mma<T>(c.part[2 * n], a.part[k], b[0], b[1]);
      mma<T>(c.part[2 * n + 1], a.part[k], b[2], b[3]);
    }
  }
}

/// A result as a left operand of the next product. Their fragments have the same layout.
template <class T>
NYSTROM_DEVICE void as_left(LeftOperand<tile_rows>& a, const Accumulator<tile_rows>& c) {
  NYSTROM_UNROLL
  for (int k = 0; k < tile_rows / 16; ++k) {
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float* number = c.part[2 * k + i / 2] + i % 2 * 2;
      a.part[k][i] = pack<T>(number[0], number[1]);
    }
  }
}

/// The row and the column of number i of fragment n of a warp's result, in the block's tile.
NYSTROM_DEVICE int row_of(int i) { return warp_index() * 16 + lane_index() / 4 + i / 2 * 8; }
NYSTROM_DEVICE int column_of(int n, int i) { return n * 8 + lane_index() % 4 * 2 + i % 2; }

/// Stores a result in a tile of 64 × 64.
template <class T>
NYSTROM_DEVICE void store_tile(const Accumulator<tile_rows>& c, T* tile) {
  NYSTROM_UNROLL
  for (int n = 0; n < tile_rows / 8; ++n) {
    NYSTROM_UNROLL
    for (int i = 0; i < 4; i += 2) {
      *reinterpret_cast<std::uint32_t*>(tile + row_of(i) * tile_stride<tile_rows> +
                                        column_of(n, i)) = pack<T>(c.part[n][i], c.part[n][i + 1]);
    }
  }
}

/// Stores the warp's 16 rows, first + row …, in the output (T or f32), up to the last row.
template <class T, int Width>
NYSTROM_DEVICE void store_rows(const Accumulator<Width>& c, const HeadRows<float, false>& out,
                               int first) {
  NYSTROM_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const int row = first + row_of(i);
    if (row >= out.rows) continue;
    const std::int64_t at = out.at(row);
    NYSTROM_UNROLL
    for (int n = 0; n < Width / 8; ++n) {
      if (out.numbers.dtype != DType::f32) {
        *reinterpret_cast<std::uint32_t*>(static_cast<T*>(out.numbers.data) + at +
                                          column_of(n, 0)) =
            pack<T>(c.part[n][i], c.part[n][i + 1]);
      } else {
        *reinterpret_cast<Pack<float, 2>*>(static_cast<float*>(out.numbers.data) + at +
                                           column_of(n, 0)) = {{c.part[n][i], c.part[n][i + 1]}};
      }
    }
  }
}

/// Reduces over the four lanes that hold a row of a result.
NYSTROM_DEVICE float row_max(float value) {
  value = larger(value, __shfl_xor_sync(whole_warp, value, 1));
  return larger(value, __shfl_xor_sync(whole_warp, value, 2));
}
NYSTROM_DEVICE float row_sum(float value) {
  value += __shfl_xor_sync(whole_warp, value, 1);
  return value + __shfl_xor_sync(whole_warp, value, 2);
}

}  // namespace nystrom::cuda
