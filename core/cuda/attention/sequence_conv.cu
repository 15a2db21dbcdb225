// Depthwise convolution along the sequence, one filter a head. A block holds a tile of one head's
// rows with its halo in shared memory. A thread computes several neighbouring rows of one channel.
// sequence_conv_fused.cu computes aligned bf16 and f16 on tensor cores.
#include <string>

#include "core/base/error.h"
#include "core/cuda/attention/sequence_conv.cuh"
#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/rows/reduce.cuh"
#include "core/cuda/shared.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;
constexpr int tile = 64;      // rows of the result that a block computes
constexpr int channels = 64;  // the most channels that a block holds at once
constexpr int rows_a_thread = 8;

using Problem = ConvProblem<tile, channels>;
using Place = ConvPlace<tile, channels>;

/// Copies rows first − before … of one head into shared memory, with zeros outside the span.
template <class T, class A>
NYSTROM_DEVICE void load_rows(const Rows<const T>& x, const Place& at, int before, int rows,
                              A* target) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * channels; i += block) {
    const int c = i % channels;
    const int t = at.first - before + i / channels;
    const bool inside = t >= 0 && t < at.span.rows && c < at.count;
    target[i] = inside ? static_cast<A>(load(x.at(at.span, at.h, t)[at.column + c])) : A(0);
  }
}

/// y[t] = Σ_j w[j] x[t + j − k/2], or with the taps reversed.
template <class T>
__global__ void convolve_kernel(Rows<const T> x, const T* w, Problem p, bool reversed,
                                Rows<const T> addend, Rows<T> y) {
  using A = accumulate_t<T>;
  A* taps = dynamic_shared<A>();
  A* rows = taps + p.taps;
  const Place at(p);
  if (at.first >= at.span.rows) return;
  for (std::int64_t j = threadIdx.x; j < p.taps; j += block)
    taps[j] = load(w[at.h * p.taps + (reversed ? p.taps - 1 - j : j)]);
  load_rows<T, A>(x, at, static_cast<int>(p.taps / 2), static_cast<int>(tile + p.taps - 1), rows);
  __syncthreads();
  for (int unit = static_cast<int>(threadIdx.x); unit < tile / rows_a_thread * channels;
       unit += block) {
    const int c = unit % channels, first = unit / channels * rows_a_thread;
    if (c >= at.count) continue;
    A sum[rows_a_thread] = {};
    A window[rows_a_thread];
    for (int i = 0; i < rows_a_thread; ++i) window[i] = rows[(first + i) * channels + c];
    for (std::int64_t j = 0; j < p.taps; ++j) {
      for (int i = 0; i < rows_a_thread; ++i) sum[i] += taps[j] * window[i];
      for (int i = 0; i + 1 < rows_a_thread; ++i) window[i] = window[i + 1];
      if (j + 1 < p.taps)
        window[rows_a_thread - 1] = rows[(first + rows_a_thread + j) * channels + c];
    }
    for (int i = 0; i < rows_a_thread; ++i) {
      const int t = at.first + first + i;
      if (t >= at.span.rows) continue;
      const A before =
          addend.data ? static_cast<A>(load(addend.at(at.span, at.h, t)[at.column + c])) : A(0);
      y.at(at.span, at.h, t)[at.column + c] = convert<T>(before + sum[i]);
    }
  }
}

/// partial[piece, h, j] = Σ over a tile of dy[t, c] · x[t + j − k/2, c]. Warps take the taps in
/// turn.
template <class T>
__global__ void tap_grad_kernel(Rows<const T> x, Rows<const T> dy, Problem p,
                                accumulate_t<T>* partial) {
  using A = accumulate_t<T>;
  A* grads = dynamic_shared<A>();
  A* rows = grads + tile * channels;
  const Place at(p);
  A* const of_piece = partial + (at.piece * p.heads + at.h) * p.taps;
  if (at.first >= at.span.rows) {
    for (std::int64_t j = threadIdx.x; j < p.taps; j += block) of_piece[j] = 0;
    return;
  }
  load_rows<T, A>(dy, at, 0, tile, grads);
  load_rows<T, A>(x, at, static_cast<int>(p.taps / 2), static_cast<int>(tile + p.taps - 1), rows);
  __syncthreads();
  for (std::int64_t j = warp_index(); j < p.taps; j += block / warp_size) {
    A sum = 0;
    for (int i = lane_index(); i < tile * channels; i += warp_size)
      sum += grads[i] * rows[j * channels + i];
    sum = warp_sum(sum);
    if (lane_index() == 0) of_piece[j] = sum;
  }
}

}  // namespace
}  // namespace nystrom::kernels::cuda

namespace nystrom::cuda {

void require_room_for_taps(std::size_t shared, std::int64_t taps) {
  const std::size_t room = shared_memory_of_a_block();
  if (shared <= room) return;
  throw InputError("a convolution of " + std::to_string(taps) + " taps needs " +
                   std::to_string(shared / 1024 + 1) +
                   " KiB of a GPU's shared memory, this one has " + std::to_string(room / 1024) +
                   "; lower model.attention.conv_kernel_size, or compute on the CPU");
}

}  // namespace nystrom::cuda

namespace nystrom::kernels::cuda {

void sequence_conv(CView x, CView w, Spans spans, CView addend, View y) {
  const Problem p(spans, x, w);
  if (fused_conv_fits({x, y}) && fused_conv_fits({addend ? addend : x}))
    return sequence_conv_fused(x, w, spans, addend, y);
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    const std::size_t shared =
        sizeof(accumulate_t<T>) * static_cast<std::size_t>(p.taps + (tile + p.taps - 1) * channels);
    require_room_for_taps(shared, p.taps);
    launch(convolve_kernel<T>, p.blocks(), dim3(block), shared, rows_of<const T>(x), w.as<T>(), p,
           false, rows_of<const T>(addend), rows_of<T>(y));
  });
}

void sequence_conv_grad(CView x, CView w, Spans spans, CView dy, CView addend, View dx, View dw) {
  const Problem p(spans, x, w);
  if (x.numel() == 0) return;
  if (fused_conv_fits({x, dy, dx}) && fused_conv_fits({addend ? addend : dy}))
    return sequence_conv_fused_grad(x, w, spans, dy, addend, dx, dw);
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    const std::size_t halo = sizeof(A) * static_cast<std::size_t>((tile + p.taps - 1) * channels);
    require_room_for_taps(halo + sizeof(A) * tile * channels, p.taps);
    launch(convolve_kernel<T>, p.blocks(), dim3(block),
           halo + sizeof(A) * static_cast<std::size_t>(p.taps), rows_of<const T>(dy), w.as<T>(), p,
           true, rows_of<const T>(addend), rows_of<T>(dx));
    const Workspace<A> partial(dx, p.pieces() * p.heads * p.taps);
    launch(tap_grad_kernel<T>, p.blocks(), dim3(block), halo + sizeof(A) * tile * channels,
           rows_of<const T>(x), rows_of<const T>(dy), p, partial.get());
    sum_pieces(partial.get(), 1, p.pieces(), p.heads * p.taps, true, dw.as<A>());
  });
}

}  // namespace nystrom::kernels::cuda
