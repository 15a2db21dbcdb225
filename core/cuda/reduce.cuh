// Sums over rows, per column, in two passes: partial sums of pieces of fixed size, then their sum in order. No atomics: the same bits in
// every run.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"

namespace nystrom::cuda {

/// Rows that one block of a column sum adds up.
inline constexpr std::int64_t rows_per_piece = 128;

/// target[i] (+)= Σ over rows r of partial[outer, r, column], for i = outer · columns + column, where rows are `width` ≥ columns wide.
template <class Out, class A>
__global__ void sum_pieces_kernel(const A* partial, std::int64_t outer, std::int64_t rows, std::int64_t width, std::int64_t columns,
                                  bool accumulate, Out* target) {
  for (std::int64_t i = grid_index(); i < outer * columns; i += grid_size()) {
    const A* column = partial + i / columns * rows * width + i % columns;
    A sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += column[r * width];
    using S = accumulate_t<Out>;
    target[i] = convert<Out>(accumulate ? load(target[i]) + static_cast<S>(sum) : static_cast<S>(sum));
  }
}

template <class Out, class A>
void sum_pieces(const A* partial, std::int64_t outer, std::int64_t rows, std::int64_t width, std::int64_t columns, bool accumulate,
                Out* target) {
  launch(sum_pieces_kernel<Out, A>, dim3(blocks_for(outer * columns, 256)), dim3(256), 0, partial, outer, rows, width, columns, accumulate,
         target);
}

}  // namespace nystrom::cuda
