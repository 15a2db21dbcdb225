// Sums. The division of work depends on sizes only, so results do not depend on the GPU.
#include "core/cuda/rows/reduce.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;
/// The most that a thread adds up in the accumulate type.
constexpr std::int64_t addends = 1024;

/// One block a row.
template <class T, class Out>
__global__ void sum_row_kernel(const T* x, std::int64_t outer, std::int64_t reduced,
                               bool accumulate, Out* y) {
  using A = accumulate_t<T>;
  using S = accumulate_t<Out>;
  for (std::int64_t o = blockIdx.x; o < outer; o += gridDim.x) {
    double total = 0;  // a sum of very many would outgrow its addends
    for (std::int64_t first = threadIdx.x; first < reduced; first += addends * blockDim.x) {
      const std::int64_t end = first + addends * blockDim.x;
      A sum = 0;
      for (std::int64_t r = first; r < reduced && r < end; r += blockDim.x)
        sum += load(x[o * reduced + r]);
      total += static_cast<double>(sum);
    }
    const A sum = static_cast<A>(block_sum(total));
    if (threadIdx.x == 0)
      y[o] = convert<Out>(accumulate ? load(y[o]) + static_cast<S>(sum) : static_cast<S>(sum));
  }
}

/// Adds packs of x.
template <class T, int V>
struct Addends {
  const T* x;
  NYSTROM_DEVICE void operator()(std::int64_t offset, accumulate_t<T> (&sum)[V]) const {
    const auto pack = load_pack<V>(x + offset);
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i) sum[i] += load(pack.value[i]);
  }
};

constexpr std::int64_t squares_per_block = 1 << 16;

template <class T>
__global__ void square_pieces_kernel(const T* x, std::int64_t count, double* partial) {
  const std::int64_t pieces = (count + squares_per_block - 1) / squares_per_block;
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const std::int64_t first = piece * squares_per_block;
    const std::int64_t last = first + squares_per_block < count ? first + squares_per_block : count;
    double sum = 0;
    for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
      const auto value = static_cast<double>(load(x[i]));
      sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[piece] = sum;
  }
}

constexpr std::int64_t words_per_block = 1 << 14;

template <class Word>
__global__ void bit_pieces_kernel(const Word* words, std::int64_t count, std::uint64_t* partial) {
  const std::int64_t pieces = (count + words_per_block - 1) / words_per_block;
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const std::int64_t first = piece * words_per_block;
    const std::int64_t last = first + words_per_block < count ? first + words_per_block : count;
    std::uint64_t sum = 0;
    for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x)
      sum += static_cast<std::uint64_t>(words[i]) *
             static_cast<std::uint32_t>(2 * static_cast<std::uint64_t>(i) + 1);
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[piece] = sum;
  }
}

}  // namespace

void sum_middle(CView x, View y, bool accumulate) {
  const std::int64_t outer = x.shape[0], reduced = x.shape[1], inner = x.shape[2];
  if (outer * inner == 0) return;
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    const auto run = [&]<class Out>(TypeTag<Out>) {
      if (inner == 1) {
        launch(sum_row_kernel<T, Out>, dim3(blocks_for(outer, 1)), dim3(block), 0, x.as<T>(), outer,
               reduced, accumulate, y.as<Out>());
        return;
      }
      with_pack<T>(inner, {x.data}, [&](auto pack) {
        sum_columns<pack()>(Addends<T, pack()>{x.as<T>()}, outer, reduced, inner, accumulate, y,
                            y.as<Out>());
      });
    };
    y.dtype == x.dtype ? run(TypeTag<T>{}) : run(TypeTag<A>{});
  });
}

void sum_of_squares(CView x, View y) {
  const std::int64_t count = x.numel(), pieces = divide_up(count, squares_per_block);
  const Workspace<double> partial(y, pieces);
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    launch(square_pieces_kernel<T>, dim3(blocks_for(pieces, 1)), dim3(block), 0, x.as<T>(), count,
           partial.get());
  });
  sum_pieces(partial.get(), 1, pieces, 1, false, y.as<double>());
}

void bit_sum(CView x, View y) {
  const std::int64_t count = x.numel(), pieces = divide_up(count, words_per_block);
  const Workspace<std::uint64_t> partial(y, pieces);
  visit_any_float(x.dtype, [&](auto tag) {
    using Word = bits_t<typename decltype(tag)::type>;
    launch(bit_pieces_kernel<Word>, dim3(blocks_for(pieces, 1)), dim3(block), 0,
           static_cast<const Word*>(x.data), count, partial.get());
  });
  sum_pieces(partial.get(), 1, pieces, 1, false, static_cast<std::uint64_t*>(y.data));
}

}  // namespace nystrom::kernels::cuda
