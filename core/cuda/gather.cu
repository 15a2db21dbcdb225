// Rows by index. The scatter sorts its rows by target first, so that one block adds all rows of a target in their order: no atomics.
#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/sort.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;

template <class T, int V>
__global__ void gather_kernel(const T* x, const std::int64_t* index, std::int64_t rows, std::int64_t packs, T* y) {
  for (std::int64_t i = grid_index(); i < rows * packs; i += grid_size()) {
    const std::int64_t r = i / packs, from = index[r];
    Pack<T, V> pack{};
    if (from >= 0) pack = load_pack<V>(x + (from * packs + i % packs) * V);
    store_pack(y + i * V, pack);
  }
}

/// Rows that go nowhere get the key behind all targets.
__global__ void key_kernel(const std::int64_t* index, std::int64_t rows, std::int64_t skip, std::uint32_t targets, std::uint32_t* keys,
                           std::uint32_t* row) {
  for (std::int64_t i = grid_index(); i < rows; i += grid_size()) {
    keys[i] = index[i] < 0 || index[i] == skip ? targets : static_cast<std::uint32_t>(index[i]);
    row[i] = static_cast<std::uint32_t>(i);
  }
}

/// Block i stands at place i of the sorted rows. It works where a run of equal keys begins, and adds the whole run.
template <class T, class Out>
__global__ void scatter_kernel(const T* x, const std::uint32_t* keys, const std::uint32_t* row, std::int64_t rows, std::uint32_t targets,
                               std::int64_t width, Out* y) {
  using S = accumulate_t<Out>;
  for (std::int64_t place = blockIdx.x; place < rows; place += gridDim.x) {
    const std::uint32_t key = keys[place];
    if (key == targets || (place > 0 && keys[place - 1] == key)) continue;
    for (std::int64_t column = threadIdx.x; column < width; column += blockDim.x) {
      S sum = load(y[key * width + column]);
      for (std::int64_t i = place; i < rows && keys[i] == key; ++i) sum += static_cast<S>(load(x[row[i] * width + column]));
      y[key * width + column] = convert<Out>(sum);
    }
  }
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
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = 16 / sizeof(T);
    const bool wide = width % V == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && reinterpret_cast<std::uintptr_t>(y.data) % 16 == 0;
    const std::int64_t packs = wide ? width / V : width;
    launch(wide ? gather_kernel<T, V> : gather_kernel<T, 1>, dim3(blocks_for(rows * packs, block)), dim3(block), 0, x.as<T>(),
           index.as<std::int64_t>(), rows, packs, y.as<T>());
  });
}

void scatter_add_rows(CView x, CView index, std::int64_t skip, View y) {
  const std::int64_t width = x.dim(-1), rows = index.numel(), targets = width == 0 ? 0 : y.numel() / width;
  if (rows * width == 0) return;
  const Workspace<std::uint32_t> work(y, 4 * rows);
  std::uint32_t *keys = work.get(), *row = keys + rows, *sorted_keys = row + rows, *sorted_row = sorted_keys + rows;
  launch(key_kernel, dim3(blocks_for(rows, block)), dim3(block), 0, index.as<std::int64_t>(), rows, skip, static_cast<std::uint32_t>(targets),
         keys, row);
  sort_pairs(y, keys, row, sorted_keys, sorted_row, rows, bits_of(targets));
  visit_float(x.dtype, [&](auto from) {
    using T = typename decltype(from)::type;
    visit_float(y.dtype, [&](auto to) {
      using Out = typename decltype(to)::type;
      launch(scatter_kernel<T, Out>, dim3(static_cast<unsigned>(rows)), dim3(block), 0, x.as<T>(), sorted_keys, sorted_row, rows,
             static_cast<std::uint32_t>(targets), width, y.as<Out>());
    });
  });
}

}  // namespace nystrom::kernels::cuda
