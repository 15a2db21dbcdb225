// Sums over rows for each column, in two passes: partial sums of pieces of fixed size, then their
// sum in order. Without atomics, every run gives the same bits.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"

namespace nystrom::cuda {

/// The number of rows that one block of a column sum adds.
inline constexpr std::int64_t rows_per_piece = 128;

/// The results of sum_pieces: each takes `columns` sums, the next result the next ones.
template <class Out>
struct SumTargets {
  Out* at[3];
  bool accumulate[3];
};

/// target[i] (+)= Σ over rows r of partial[outer, r, column], for i = outer · columns + column,
/// where rows are `width` ≥ columns wide. A block takes 32 sums; its eight warps an eighth of the
/// rows each.
template <class Out, class A>
__global__ void sum_pieces_kernel(const A* partial, std::int64_t outer, std::int64_t rows,
                                  std::int64_t width, std::int64_t columns, std::int64_t of_target,
                                  SumTargets<Out> targets) {
  constexpr int groups = 8;
  __shared__ A sums[groups][warp_size];
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane_index();
  A sum = 0;
  if (i < outer * columns) {
    const A* column = partial + i / columns * rows * width + i % columns;
    NYSTROM_UNROLL_4
    for (std::int64_t r = warp_index() * rows / groups; r < (warp_index() + 1) * rows / groups; ++r)
      sum += column[r * width];
  }
  sums[warp_index()][lane_index()] = sum;
  __syncthreads();
  if (warp_index() != 0 || i >= outer * columns) return;
  for (int group = 1; group < groups; ++group) sum += sums[group][lane_index()];
  using S = accumulate_t<Out>;
  const std::int64_t which = i / of_target;
  Out& target = targets.at[which][i % of_target];
  target = convert<Out>(targets.accumulate[which] ? load(target) + static_cast<S>(sum)
                                                  : static_cast<S>(sum));
}

/// Sums of partial [rows, width ≥ targets, of_target] over the rows, one result each.
template <class Out, class A>
void sum_pieces(const A* partial, std::int64_t rows, std::int64_t of_target, int targets, int width,
                const SumTargets<Out>& target) {
  const std::int64_t columns = of_target * targets;
  launch(sum_pieces_kernel<Out, A>, dim3(static_cast<unsigned>(divide_up(columns, warp_size))),
         dim3(8 * warp_size), 0, partial, std::int64_t{1}, rows, of_target * width, columns,
         of_target, target);
}
/// Sums of partial [outer, rows, columns] over the rows.
template <class Out, class A>
void sum_pieces(const A* partial, std::int64_t outer, std::int64_t rows, std::int64_t columns,
                bool accumulate, Out* target) {
  launch(sum_pieces_kernel<Out, A>,
         dim3(static_cast<unsigned>(divide_up(outer * columns, warp_size))), dim3(8 * warp_size), 0,
         partial, outer, rows, columns, columns, outer * columns,
         SumTargets<Out>{{target}, {accumulate}});
}

/// partial[outer, piece, column] = Σ over the rows of a piece. f(offset, sum) adds the V numbers at
/// an offset in [outer, rows, columns] to `sum`. A warp takes 32 · V columns; the block's eight
/// warps take the piece's rows in turn.
template <int V, class A, class F>
__global__ void column_pieces_kernel(F f, std::int64_t outer, std::int64_t rows,
                                     std::int64_t columns, std::int64_t pieces, A* partial) {
  constexpr int warps = 8;
  __shared__ A sums[warps][V][warp_size];
  const std::int64_t spans = (columns + V * warp_size - 1) / (V * warp_size);
  for (std::int64_t unit = blockIdx.x; unit < outer * pieces * spans; unit += gridDim.x) {
    const std::int64_t column = (unit % spans * warp_size + lane_index()) * V,
                       piece = unit / spans % pieces, o = unit / spans / pieces;
    const std::int64_t first = piece * rows_per_piece;
    const std::int64_t last = first + rows_per_piece < rows ? first + rows_per_piece : rows;
    A sum[V] = {};
    if (column < columns) {
      NYSTROM_UNROLL_4
      for (std::int64_t r = first + warp_index(); r < last; r += warps)
        f((o * rows + r) * columns + column, sum);
    }
    __syncthreads();  // all threads have read the last sums
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i) sums[warp_index()][i][lane_index()] = sum[i];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < V * warp_size; i += warps * warp_size) {
      const std::int64_t target = unit % spans * warp_size * V + i;
      if (target >= columns) break;
      A total = 0;
      for (int w = 0; w < warps; ++w) total += sums[w][i % V][i / V];
      partial[(o * pieces + piece) * columns + target] = total;
    }
  }
}

/// target[outer, column] (+)= Σ over rows of what f adds: see column_pieces_kernel. columns is a
/// multiple of V.
template <int V, class F, class Out>
void sum_columns(const F& f, std::int64_t outer, std::int64_t rows, std::int64_t columns,
                 bool accumulate, const ViewBase& like, Out* target) {
  using A = accumulate_t<Out>;
  const std::int64_t pieces = rows == 0 ? 0 : divide_up(rows, rows_per_piece);
  const Workspace<A> partial(like, outer * pieces * columns);
  launch(column_pieces_kernel<V, A, F>,
         dim3(blocks_for(outer * pieces * divide_up(columns, V * warp_size), 1)), dim3(256), 0, f,
         outer, rows, columns, pieces, partial.get());
  sum_pieces(partial.get(), outer, pieces, columns, accumulate, target);
}

}  // namespace nystrom::cuda
