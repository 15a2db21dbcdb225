// Depthwise convolution along the sequence on tensor cores (conv_band.cuh).
#include <algorithm>
#include <initializer_list>

#include "core/cuda/conv_band.cuh"
#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/reduce.cuh"
#include "core/cuda/sequence_conv.cuh"
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

/// Copies rows from `first` on of one head into shared memory, with zeros outside the sequence and
/// at mask 0.
template <class T, int C>
NYSTROM_DEVICE void load_rows(const Rows<const T>& x, const std::uint8_t* mask, const Problem<C>& p,
                              const Place<C>& at, std::int64_t first, int rows, T* target) {
  constexpr int packs = C / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += block) {
    const int row = i / packs, column = i % packs * 8;
    const std::int64_t t = first + row;
    Pack<std::uint32_t, 4> eight{};
    if (t >= 0 && t < p.length && (!mask || mask[at.b * p.length + t]))
      eight = *reinterpret_cast<const Pack<std::uint32_t, 4>*>(x.at(at.b, t, at.h) + at.column +
                                                               column);
    *reinterpret_cast<Pack<std::uint32_t, 4>*>(target + row * tile_stride<C> + column) = eight;
  }
}

/// y[t] = Σ_j w[j] x[t + j − k/2], or with the taps reversed. With `mask_input` masked rows of x
/// count as 0, otherwise masked rows of y become 0.
template <class T, int C>
__global__ void __launch_bounds__(block)
    convolve_kernel(Rows<const T> x, const T* w, const std::uint8_t* mask, Problem<C> p,
                    bool reversed, bool mask_input, Rows<const T> addend, Rows<T> y) {
  const int taps = static_cast<int>(p.taps);
  auto* rows = dynamic_shared<T>();
  auto* band = rows + conv_rows(tile, taps) * tile_stride<C>;
  const Place<C> at(p);
  fill_band(w + at.h * taps, taps, reversed, band);
  load_rows(x, mask_input ? mask : nullptr, p, at, at.first - taps / 2, conv_rows(tile, taps),
            rows);
  __syncthreads();
  Accumulator<C> sum;
  sum.clear();
  multiply_by_band(sum, band, spans_of(taps), rows);
  NYSTROM_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = at.first + row_of(2 * half);
    if (row >= p.length) continue;
    const bool zero = !mask_input && mask && !mask[at.b * p.length + row];
    T* target = y.at(at.b, row, at.h) + at.column;
    NYSTROM_UNROLL
    for (int c = 0; c < C / 8; ++c) {
      const float* number = sum.part[c] + 2 * half;
      float first = zero ? 0.0f : number[0], second = zero ? 0.0f : number[1];
      if (addend.data) {
        const auto before = load_pack<2>(addend.at(at.b, row, at.h) + at.column + column_of(c, 0));
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
    tap_grad_kernel(Rows<const T> x, const std::uint8_t* mask, Rows<const T> dy, Problem<C> p,
                    float* partial) {
  const int taps = static_cast<int>(p.taps);
  const TapSums<warps> sums(dynamic_shared<float>(), taps);
  auto* grads =
      reinterpret_cast<T*>(dynamic_shared<unsigned char>() + bytes_of_tap_sums(warps, taps));
  T* rows = grads + tile * tile_stride<C>;
  const Place<C> at(p);
  load_rows(dy, nullptr, p, at, at.first, tile, grads);
  load_rows(x, mask, p, at, at.first - taps / 2, conv_rows(tile, taps), rows);
  sums.clear();
  __syncthreads();
  LeftOperand<C> left;
  load_left<C>(left, grads);
  sums.add(left, rows);
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < taps; j += block)
    partial[(at.piece * p.heads + at.h) * taps + j] = sums.total(j);
}

template <int C>
Problem<C> problem_of(const CView& x, const CView& w) {
  return {x.shape[0], x.shape[1], x.shape[2], x.shape[3], w.shape[1]};
}

template <class T, int C>
void convolve(const CView& x, const CView& w, const CView& mask, bool reversed, bool mask_input,
              const CView& addend, const View& y) {
  const Problem<C> p = problem_of<C>(x, w);
  const std::size_t shared = bytes_of_rows(conv_rows(tile, p.taps), C) +
                             sizeof(T) * static_cast<std::size_t>(band_size(p.taps));
  require_room_for_taps(shared, p.taps);
  launch(convolve_kernel<T, C>, p.blocks(), dim3(block), shared, rows_of<const T>(x), w.as<T>(),
         mask.as<std::uint8_t>(), p, reversed, mask_input, rows_of<const T>(addend), rows_of<T>(y));
}

template <class T, int C>
void tap_grad(const CView& x, const CView& w, const CView& mask, const CView& dy, const View& dw) {
  const Problem<C> p = problem_of<C>(x, w);
  const Workspace<float> partial(dw, p.pieces() * p.heads * p.taps);
  const std::size_t shared =
      bytes_of_tap_sums(warps, p.taps) + bytes_of_rows(tile + conv_rows(tile, p.taps), C);
  require_room_for_taps(shared, p.taps);
  launch(tap_grad_kernel<T, C>, p.blocks(), dim3(block), shared, rows_of<const T>(x),
         mask.as<std::uint8_t>(), rows_of<const T>(dy), p, partial.get());
  sum_pieces(partial.get(), 1, p.pieces(), p.heads * p.taps, true, dw.as<float>());
}

/// Calls f with the type, and the channels that a block takes at once.
template <class F>
void with_sizes(const CView& x, const F& f) {
  const auto of_type = [&]<class T>(TypeTag<T> type) {
    x.shape[3] % 64 == 0 ? f(type, std::integral_constant<int, 64>{})
                         : f(type, std::integral_constant<int, 32>{});
  };
  x.dtype == DType::f16 ? of_type(TypeTag<f16>{}) : of_type(TypeTag<bf16>{});
}

}  // namespace

bool fused_conv_fits(std::initializer_list<CView> operands) {
  return std::all_of(operands.begin(), operands.end(), [](const CView& x) {
    return is_half(x.dtype) && tensor_cores_take(x.dtype, x.device.index) && x.shape[3] % 32 == 0 &&
           has_aligned_rows(x);
  });
}

void sequence_conv_fused(const CView& x, const CView& w, const CView& mask, const CView& addend,
                         const View& y) {
  with_sizes(x, [&]<class T, int C>(TypeTag<T>, std::integral_constant<int, C>) {
    convolve<T, C>(x, w, mask, false, true, addend, y);
  });
}

void sequence_conv_fused_grad(const CView& x, const CView& w, const CView& mask, const CView& dy,
                              const CView& addend, const View& dx, const View& dw) {
  with_sizes(x, [&]<class T, int C>(TypeTag<T>, std::integral_constant<int, C>) {
    convolve<T, C>(dy, w, mask, true, false, addend, dx);
    tap_grad<T, C>(x, w, mask, dy, dw);
  });
}

}  // namespace nystrom::cuda
