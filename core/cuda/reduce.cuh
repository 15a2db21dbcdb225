// Sums over rows for each column, in two passes: partial sums of pieces of fixed size, then their
// sum in order. Without atomics, every run gives the same bits.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"

namespace nystrom::cuda {

/// The number of rows that one block of a column sum adds.
inline constexpr std::int64_t rows_per_piece = 128;

/// target[i] (+)= Σ over rows r of partial[outer, r, column], for i = outer · columns + column,
/// where rows are `width` ≥ columns wide. A block takes 32 sums; its eight warps an eighth of the
/// rows each.
template <class Out, class A>
__global__ void sum_pieces_kernel(const A* partial, std::int64_t outer, std::int64_t rows,
                                  std::int64_t width, std::int64_t columns, bool accumulate,
                                  Out* target) {
  constexpr int groups = 8;
  __shared__ A sums[groups][warp_size];
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane_index();
  A sum = 0;
  if (i < outer * columns) {
    const A* column = partial + i / columns * rows * width + i % columns;
    for (std::int64_t r = warp_index() * rows / groups; r < (warp_index() + 1) * rows / groups; ++r)
      sum += column[r * width];
  }
  sums[warp_index()][lane_index()] = sum;
  __syncthreads();
  if (warp_index() != 0 || i >= outer * columns) return;
  for (int group = 1; group < groups; ++group) sum += sums[group][lane_index()];
  using S = accumulate_t<Out>;
  target[i] =
      convert<Out>(accumulate ? load(target[i]) + static_cast<S>(sum) : static_cast<S>(sum));
}

template <class Out, class A>
void sum_pieces(const A* partial, std::int64_t outer, std::int64_t rows, std::int64_t width,
                std::int64_t columns, bool accumulate, Out* target) {
  launch(sum_pieces_kernel<Out, A>,
         dim3(static_cast<unsigned>(divide_up(outer * columns, warp_size))), dim3(8 * warp_size), 0,
         partial, outer, rows, width, columns, accumulate, target);
}

}  // namespace nystrom::cuda
