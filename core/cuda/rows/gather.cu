// Rows by index. The scatter sorts its rows by target, then adds the rows of each target in their
// order, piece by piece. There are no atomics.
#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/rows/sort.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;

template <class T, int V>
__global__ void gather_kernel(const T* x, const std::int64_t* index, std::int64_t rows,
                              std::int64_t packs, T* y) {
  for (std::int64_t i = grid_index(); i < rows * packs; i += grid_size()) {
    const std::int64_t r = i / packs, from = index[r];
    Pack<T, V> pack{};
    if (from >= 0) pack = load_pack<V>(x + (from * packs + i % packs) * V);
    store_pack(y + i * V, pack);
  }
}

/// Rows without a target get a key above all targets.
__global__ void key_kernel(const std::int64_t* index, std::int64_t rows, std::int64_t skip,
                           std::uint32_t targets, std::uint32_t* keys, std::uint32_t* row) {
  for (std::int64_t i = grid_index(); i < rows; i += grid_size()) {
    keys[i] = index[i] < 0 || index[i] == skip ? targets : static_cast<std::uint32_t>(index[i]);
    row[i] = static_cast<std::uint32_t>(i);
  }
}

constexpr std::int64_t places_per_piece = 64;
constexpr int parts_ahead = 16;

/// Sorted positions, divided into pieces: a run of equal keys may be as long as the batch, and one
/// block would be slow.
struct Runs {
  const std::uint32_t *keys, *row;
  std::int64_t rows;
  std::uint32_t nowhere;  ///< the key of rows without a target

  NYSTROM_DEVICE std::int64_t first_of(std::int64_t piece) const {
    return piece * places_per_piece;
  }
  NYSTROM_DEVICE std::int64_t last_of(std::int64_t piece) const {
    return first_of(piece + 1) < rows ? first_of(piece + 1) - 1 : rows - 1;
  }
  /// The last piece of the run that has `place`: keys are in order.
  NYSTROM_DEVICE std::int64_t last_piece_of_run(std::int64_t place) const {
    std::int64_t inside = place, outside = rows;
    while (outside - inside > 1) {
      const std::int64_t middle = (inside + outside) / 2;
      (keys[middle] == keys[place] ? inside : outside) = middle;
    }
    return inside / places_per_piece;
  }
  /// Whether position and position + 1 belong to one run.
  NYSTROM_DEVICE bool continues(std::int64_t place) const {
    return place + 1 < rows && keys[place] == keys[place + 1];
  }
};

/// Writes runs within a piece to y. For others, partial[2 · piece] gets the part of a run from an
/// earlier piece. partial[2 · piece + 1] gets the part of a run that begins here and continues. One
/// thread a column.
template <class T, class Out>
__global__ void scatter_kernel(const T* x, Runs runs, std::int64_t width, Out* y,
                               accumulate_t<Out>* partial) {
  using S = accumulate_t<Out>;
  const std::int64_t piece = blockIdx.x,
                     column = static_cast<std::int64_t>(blockIdx.y) * block + threadIdx.x;
  if (column >= width) return;
  const std::int64_t first = runs.first_of(piece), last = runs.last_of(piece);
  bool from_before = first > 0 && runs.continues(first - 1);
  S sum = 0;
  for (std::int64_t place = first; place <= last; ++place) {
    const std::uint32_t key = runs.keys[place];
    if (key != runs.nowhere) sum += static_cast<S>(load(x[runs.row[place] * width + column]));
    const bool goes_on = runs.continues(place);
    if (goes_on && place < last) continue;
    if (from_before) {
      partial[2 * piece * width + column] = sum;
    } else if (goes_on) {
      partial[(2 * piece + 1) * width + column] = sum;
    } else if (key != runs.nowhere) {
      Out& target = y[key * width + column];
      target = convert<Out>(load(target) + sum);
    }
    from_before = false;
    sum = 0;
  }
}

/// Adds the parts of runs that begin in a piece and continue, in order. Parts are read several at a
/// time: a run of all rows has a thousand of them.
template <class Out>
__global__ void join_kernel(Runs runs, std::int64_t width, Out* y,
                            const accumulate_t<Out>* partial) {
  const std::int64_t piece = blockIdx.x,
                     column = static_cast<std::int64_t>(blockIdx.y) * block + threadIdx.x;
  const std::int64_t first = runs.first_of(piece), last = runs.last_of(piece);
  const std::uint32_t key = runs.keys[last];
  const bool from_before = runs.keys[first] == key && first > 0 && runs.continues(first - 1);
  if (column >= width || key == runs.nowhere || from_before || !runs.continues(last)) return;
  accumulate_t<Out> sum = partial[(2 * piece + 1) * width + column];
  const std::int64_t end = runs.last_piece_of_run(last);
  for (std::int64_t next = piece + 1; next <= end; next += parts_ahead) {
    accumulate_t<Out> part[parts_ahead];
    NYSTROM_UNROLL
    for (int i = 0; i < parts_ahead; ++i)
      part[i] = next + i <= end ? partial[2 * (next + i) * width + column] : 0;
    NYSTROM_UNROLL
    for (int i = 0; i < parts_ahead; ++i) sum += part[i];
  }
  Out& target = y[key * width + column];
  target = convert<Out>(load(target) + sum);
}

int bits_of(std::int64_t value) {
  int bits = 0;
  while (value >> bits) ++bits;
  return bits;
}

}  // namespace

void gather_rows(CView x, CView index, View y) {
  const std::int64_t width = y.dim(-1), rows = index.numel();
  if (rows * width == 0) return;
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    with_pack<T>(width, {x.data, y.data}, [&](auto pack) {
      const std::int64_t packs = width / pack();
      launch(gather_kernel<T, pack()>, dim3(blocks_for(rows * packs, block)), dim3(block), 0,
             x.as<T>(), index.as<std::int64_t>(), rows, packs, y.as<T>());
    });
  });
}

void scatter_add_rows(CView x, CView index, std::int64_t skip, View y) {
  const std::int64_t width = x.dim(-1), rows = index.numel(),
                     targets = width == 0 ? 0 : y.numel() / width;
  if (rows * width == 0) return;
  const Workspace<std::uint32_t> work(y, 4 * rows);
  std::uint32_t *keys = work.get(), *row = keys + rows, *sorted_keys = row + rows,
                *sorted_row = sorted_keys + rows;
  launch(key_kernel, dim3(blocks_for(rows, block)), dim3(block), 0, index.as<std::int64_t>(), rows,
         skip, static_cast<std::uint32_t>(targets), keys, row);
  sort_pairs(y, keys, row, sorted_keys, sorted_row, rows, bits_of(targets));
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    visit_any_float(y.dtype, [&]<class Out>(TypeTag<Out>) {
      const std::int64_t pieces = divide_up(rows, places_per_piece);
      const Workspace<accumulate_t<Out>> partial(y, 2 * pieces * width);
      const Runs runs{sorted_keys, sorted_row, rows, static_cast<std::uint32_t>(targets)};
      const dim3 grid(static_cast<unsigned>(pieces),
                      static_cast<unsigned>(divide_up(width, block)));
      launch(scatter_kernel<T, Out>, grid, dim3(block), 0, x.as<T>(), runs, width, y.as<Out>(),
             partial.get());
      launch(join_kernel<Out>, grid, dim3(block), 0, runs, width, y.as<Out>(), partial.get());
    });
  });
}

}  // namespace nystrom::kernels::cuda
