// Depthwise convolution along the sequence on tensor cores (conv_band.cuh).
#include <algorithm>
#include <initializer_list>

#include "core/cuda/attention/conv_band.cuh"
#include "core/cuda/attention/sequence_conv.cuh"
#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/rows/reduce.cuh"
#include "core/cuda/shared.cuh"

namespace nystrom::cuda {
namespace {

constexpr int block = 256;
constexpr int warps = block / warp_size;
constexpr int tile = warps * strip;  // rows that the block computes

template <int C>
using Problem = ConvProblem<tile, C>;
template <int C>
using Place = ConvPlace<tile, C>;

/// Copies rows from `first` on of one head into shared memory, with zeros outside the span.
template <class T, int C>
NYSTROM_DEVICE void load_rows(const Rows<const T>& x, const Place<C>& at, int first, int rows,
                              T* target) {
  constexpr int packs = C / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += block) {
    const int row = i / packs, column = i % packs * 8;
    const int t = first + row;
    Pack<std::uint32_t, 4> eight{};
    if (t >= 0 && t < at.span.rows)
      eight = *reinterpret_cast<const Pack<std::uint32_t, 4>*>(x.at(at.span, at.h, t) + at.column +
                                                               column);
    *reinterpret_cast<Pack<std::uint32_t, 4>*>(target + row * tile_stride<C> + column) = eight;
  }
}

/// y[t] = Σ_j w[j] x[t + j − k/2], or with the taps reversed.
template <class T, int C>
__global__ void __launch_bounds__(block)
    convolve_kernel(Rows<const T> x, const T* w, Problem<C> p, bool reversed, Rows<const T> addend,
                    Rows<T> y) {
  const int taps = static_cast<int>(p.taps);
  auto* rows = dynamic_shared<T>();
  auto* band = rows + conv_rows(tile, taps) * tile_stride<C>;
  const Place<C> at(p);
  if (at.first >= at.span.rows) return;
  fill_band(w + at.h * taps, taps, reversed, band);
  load_rows(x, at, at.first - taps / 2, conv_rows(tile, taps), rows);
  __syncthreads();
  Accumulator<C> sum;
  sum.clear();
  multiply_by_band(sum, band, groups_of(taps), rows);
  NYSTROM_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = at.first + row_of(2 * half);
    if (row >= at.span.rows) continue;
    T* target = y.at(at.span, at.h, row) + at.column;
    NYSTROM_UNROLL
    for (int c = 0; c < C / 8; ++c) {
      const float* number = sum.part[c] + 2 * half;
      float first = number[0], second = number[1];
      if (addend.data) {
        const auto before =
            load_pack<2>(addend.at(at.span, at.h, row) + at.column + column_of(c, 0));
        first += load(before.value[0]);
        second += load(before.value[1]);
      }
      *reinterpret_cast<std::uint32_t*>(target + column_of(c, 0)) = pack<T>(first, second);
    }
  }
}

/// partial[piece, h, j] = Σ over a tile of dy[t, c] · x[t + j − k/2, c].
template <class T, int C>
__global__ void __launch_bounds__(block)
    tap_grad_kernel(Rows<const T> x, Rows<const T> dy, Problem<C> p, float* partial) {
  const int taps = static_cast<int>(p.taps);
  const TapSums<warps> sums(dynamic_shared<float>(), taps);
  auto* grads =
      reinterpret_cast<T*>(dynamic_shared<unsigned char>() + bytes_of_tap_sums(warps, taps));
  T* rows = grads + tile * tile_stride<C>;
  const Place<C> at(p);
  float* const of_piece = partial + (at.piece * p.heads + at.h) * taps;
  if (at.first >= at.span.rows) {
    for (int j = static_cast<int>(threadIdx.x); j < taps; j += block) of_piece[j] = 0;
    return;
  }
  load_rows(dy, at, at.first, tile, grads);
  load_rows(x, at, at.first - taps / 2, conv_rows(tile, taps), rows);
  sums.clear();
  __syncthreads();
  LeftOperand<C> left;
  load_left<C>(left, grads);
  sums.add(left, rows);
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < taps; j += block) of_piece[j] = sums.total(j);
}

template <class T, int C>
void convolve(const CView& x, const CView& w, const Spans& spans, bool reversed,
              const CView& addend, const View& y) {
  const Problem<C> p(spans, x, w);
  const std::size_t shared = bytes_of_rows(conv_rows(tile, p.taps), C) +
                             sizeof(T) * static_cast<std::size_t>(band_size(p.taps));
  require_room_for_taps(shared, p.taps);
  launch(convolve_kernel<T, C>, p.blocks(), dim3(block), shared, rows_of<const T>(x), w.as<T>(), p,
         reversed, rows_of<const T>(addend), rows_of<T>(y));
}

template <class T, int C>
void tap_grad(const CView& x, const CView& w, const Spans& spans, const CView& dy, const View& dw) {
  const Problem<C> p(spans, x, w);
  const Workspace<float> partial(dw, p.pieces() * p.heads * p.taps);
  const std::size_t shared =
      bytes_of_tap_sums(warps, p.taps) + bytes_of_rows(tile + conv_rows(tile, p.taps), C);
  require_room_for_taps(shared, p.taps);
  launch(tap_grad_kernel<T, C>, p.blocks(), dim3(block), shared, rows_of<const T>(x),
         rows_of<const T>(dy), p, partial.get());
  sum_pieces(partial.get(), 1, p.pieces(), p.heads * p.taps, true, dw.as<float>());
}

/// Calls f with the type, and the channels that a block takes at once.
template <class F>
void with_sizes(const CView& x, const F& f) {
  const auto of_type = [&]<class T>(TypeTag<T> type) {
    x.dim(-1) % 64 == 0 ? f(type, std::integral_constant<int, 64>{})
                        : f(type, std::integral_constant<int, 32>{});
  };
  x.dtype == DType::f16 ? of_type(TypeTag<f16>{}) : of_type(TypeTag<bf16>{});
}

}  // namespace

bool fused_conv_fits(std::initializer_list<CView> operands) {
  return std::all_of(operands.begin(), operands.end(), [](const CView& x) {
    return is_half(x.dtype) && tensor_cores_take(x.dtype, x.device.index) && x.dim(-1) % 32 == 0 &&
           has_aligned_rows(x);
  });
}

void sequence_conv_fused(const CView& x, const CView& w, const Spans& spans, const CView& addend,
                         const View& y) {
  with_sizes(x, [&]<class T, int C>(TypeTag<T>, std::integral_constant<int, C>) {
    convolve<T, C>(x, w, spans, false, addend, y);
  });
}

void sequence_conv_fused_grad(const CView& x, const CView& w, const Spans& spans, const CView& dy,
                              const CView& addend, const View& dx, const View& dw) {
  with_sizes(x, [&]<class T, int C>(TypeTag<T>, std::integral_constant<int, C>) {
    convolve<T, C>(dy, w, spans, true, addend, dx);
    tap_grad<T, C>(x, w, spans, dy, dw);
  });
}

}  // namespace nystrom::cuda
