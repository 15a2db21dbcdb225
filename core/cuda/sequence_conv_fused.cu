// Depthwise convolution along the sequence on tensor cores. The taps of a head form a band matrix:
// 16 rows of the result are its product with taps + 15 rows of x. The gradients of the taps are the
// sums along the diagonals of dy xᵀ.
#include <algorithm>
#include <initializer_list>

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/reduce.cuh"
#include "core/cuda/sequence_conv.cuh"
#include "core/cuda/shared.cuh"

namespace nystrom::cuda {
namespace {

constexpr int block = 256;
constexpr int warps = block / warp_size;
constexpr int strip = 16;            // rows of the result that a warp computes
constexpr int tile = warps * strip;  // rows that the block computes

template <int C>
using Problem = ConvProblem<tile, C>;
template <int C>
using Place = ConvPlace<tile, C>;

/// Rows of shared memory have 8 extra numbers, which avoids bank conflicts of ldmatrix.
template <int C>
constexpr int stride = C + 8;

/// The number of 16-row groups of x that a strip of the result reads.
constexpr int spans_of(std::int64_t taps) {
  return static_cast<int>((taps + 2 * strip - 2) / strip);
}
constexpr int rows_read(std::int64_t taps) { return tile + (spans_of(taps) - 1) * strip; }

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
    *reinterpret_cast<Pack<std::uint32_t, 4>*>(target + row * stride<C> + column) = eight;
  }
}

template <class T>
NYSTROM_DEVICE std::uint32_t pair(const T* numbers) {
  return numbers[0].bits | static_cast<std::uint32_t>(numbers[1].bits) << 16;
}

/// y[t] = Σ_j w[j] x[t + j − k/2], or with the taps reversed. With `mask_input` masked rows of x
/// count as 0, otherwise masked rows of y become 0.
template <class T, int C>
__global__ void __launch_bounds__(block)
    convolve_kernel(Rows<const T> x, const T* w, const std::uint8_t* mask, Problem<C> p,
                    bool reversed, bool mask_input, Rows<const T> addend, Rows<T> y) {
  const int taps = static_cast<int>(p.taps), spans = spans_of(taps);
  auto* rows = dynamic_shared<T>();
  auto* band = rows + rows_read(taps) * stride<C>;  // the taps between zeros: band[16 + j] = w[j]
  const Place<C> at(p);
  for (int i = static_cast<int>(threadIdx.x); i < (spans + 1) * strip; i += block) {
    const int j = i - strip;
    band[i] = j >= 0 && j < taps ? w[at.h * taps + (reversed ? taps - 1 - j : j)] : T(0.0f);
  }
  load_rows(x, mask_input ? mask : nullptr, p, at, at.first - taps / 2, rows_read(taps), rows);
  __syncthreads();
  const int g = lane_index() / 4, t = lane_index() % 4;
  const T* own =
      rows + (warp_index() * strip + lane_index() % 16) * stride<C> + lane_index() / 16 * 8;
  float sum[C / 8][4] = {};
  for (int span = 0; span < spans; ++span) {
    const T* diagonal = band + strip + span * strip + 2 * t - g;
    const std::uint32_t middle = pair(diagonal),
                        left[4] = {middle, pair(diagonal - 8), pair(diagonal + 8), middle};
    NYSTROM_UNROLL
    for (int c = 0; c < C / 16; ++c) {
      std::uint32_t right[4];
      load_matrices_transposed(right, own + span * strip * stride<C> + c * 16);
      mma<T>(sum[2 * c], left, right[0], right[1]);
      mma<T>(sum[2 * c + 1], left, right[2], right[3]);
    }
  }
  NYSTROM_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = at.first + warp_index() * strip + g + half * 8;
    if (row >= p.length) continue;
    const bool zero = !mask_input && mask && !mask[at.b * p.length + row];
    T* target = y.at(at.b, row, at.h) + at.column + 2 * t;
    NYSTROM_UNROLL
    for (int c = 0; c < C / 8; ++c) {
      float first = zero ? 0.0f : sum[c][2 * half], second = zero ? 0.0f : sum[c][2 * half + 1];
      if (addend.data) {
        const auto before = load_pack<2>(addend.at(at.b, row, at.h) + at.column + 2 * t + c * 8);
        first += load(before.value[0]);
        second += load(before.value[1]);
      }
      *reinterpret_cast<std::uint32_t*>(target + c * 8) = pack<T>(first, second);
    }
  }
}

/// A warp's memory for gradients of taps: a product of 16 × 16 (rows 17 apart), and a sum for every
/// diagonal.
constexpr int patch = strip * (strip + 1);
constexpr int diagonals(std::int64_t taps) { return (spans_of(taps) + 1) * strip; }

/// partial[piece, h, j] = Σ over a tile of dy[t, c] · x[t + j − k/2, c].
template <class T, int C>
__global__ void __launch_bounds__(block)
    tap_grad_kernel(Rows<const T> x, const std::uint8_t* mask, Rows<const T> dy, Problem<C> p,
                    float* partial) {
  const int taps = static_cast<int>(p.taps), spans = spans_of(taps);
  auto* products = dynamic_shared<float>();
  float* sums = products + warps * patch;
  auto* grads = reinterpret_cast<T*>(sums + warps * diagonals(taps));
  T* rows = grads + tile * stride<C>;
  const Place<C> at(p);
  load_rows(dy, nullptr, p, at, at.first, tile, grads);
  load_rows(x, mask, p, at, at.first - taps / 2, rows_read(taps), rows);
  for (int i = static_cast<int>(threadIdx.x); i < warps * diagonals(taps); i += block) sums[i] = 0;
  __syncthreads();
  const int lane = lane_index(), g = lane / 4, t = lane % 4, first = warp_index() * strip;
  float *product = products + warp_index() * patch, *sum = sums + warp_index() * diagonals(taps);
  std::uint32_t left[C / 16][4];
  NYSTROM_UNROLL
  for (int c = 0; c < C / 16; ++c)
    load_matrices(left[c], grads + (first + lane % 16) * stride<C> + lane / 16 * 8 + c * 16);
  for (int span = 0; span < spans; ++span) {
    const T* own =
        rows + (first + span * strip + lane % 8 + lane / 16 * 8) * stride<C> + lane / 8 % 2 * 8;
    float part[2][4] = {};
    NYSTROM_UNROLL
    for (int c = 0; c < C / 16; ++c) {
      std::uint32_t right[4];
      load_matrices(right, own + c * 16);
      mma<T>(part[0], left[c], right[0], right[1]);
      mma<T>(part[1], left[c], right[2], right[3]);
    }
    NYSTROM_UNROLL
    for (int n = 0; n < 2; ++n) {
      NYSTROM_UNROLL
      for (int i = 0; i < 4; ++i)
        product[(g + i / 2 * 8) * (strip + 1) + n * 8 + 2 * t + i % 2] = part[n][i];
    }
    __syncwarp();
    // Lane l < 31 has the diagonal column − row = l − 15, which is tap span · 16 + l − 15. Its sum
    // is 16 places after that.
    const int shift = lane - (strip - 1);
    float along = 0;
    for (int i = 0; i < strip; ++i)
      if (i + shift >= 0 && i + shift < strip) along += product[i * (strip + 1) + i + shift];
    if (shift < strip) sum[span * strip + shift + strip] += along;
    __syncwarp();
  }
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < taps; j += block) {
    float total = 0;
    for (int warp = 0; warp < warps; ++warp) total += sums[warp * diagonals(taps) + strip + j];
    partial[(at.piece * p.heads + at.h) * taps + j] = total;
  }
}

template <int C>
Problem<C> problem_of(const CView& x, const CView& w) {
  return {x.shape[0], x.shape[1], x.shape[2], x.shape[3], w.shape[1]};
}

template <class T, int C>
void convolve(const CView& x, const CView& w, const CView& mask, bool reversed, bool mask_input,
              const CView& addend, const View& y) {
  const Problem<C> p = problem_of<C>(x, w);
  const std::size_t shared = sizeof(T) * static_cast<std::size_t>(rows_read(p.taps) * stride<C> +
                                                                  (spans_of(p.taps) + 1) * strip);
  require_room_for_taps(shared, p.taps);
  launch(convolve_kernel<T, C>, p.blocks(), dim3(block), shared, rows_of<const T>(x), w.as<T>(),
         mask.as<std::uint8_t>(), p, reversed, mask_input, rows_of<const T>(addend), rows_of<T>(y));
}

template <class T, int C>
void tap_grad(const CView& x, const CView& w, const CView& mask, const CView& dy, const View& dw) {
  const Problem<C> p = problem_of<C>(x, w);
  const Workspace<float> partial(dw, p.pieces() * p.heads * p.taps);
  const std::size_t shared =
      sizeof(float) * static_cast<std::size_t>(warps * (patch + diagonals(p.taps))) +
      sizeof(T) * static_cast<std::size_t>((tile + rows_read(p.taps)) * stride<C>);
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
