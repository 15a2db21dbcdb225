// The depthwise convolution as products of a warp on tensor cores. The taps of a head form a band
// matrix: 16 rows of the result are its product with taps + 15 rows of x. The gradients of the taps
// are the sums along the diagonals of dy xᵀ.
#pragma once

#include "core/cuda/attention/attention_tiles.cuh"

namespace nystrom::cuda {

/// band[16 + j] = w[j], or the taps reversed, between zeros; by the whole block.
template <class T>
NYSTROM_DEVICE void fill_band(const T* w, int taps, bool reversed, T* band) {
  for (int i = static_cast<int>(threadIdx.x); i < band_size(taps);
       i += static_cast<int>(blockDim.x)) {
    const int j = i - strip;
    band[i] = j >= 0 && j < taps ? w[reversed ? taps - 1 - j : j] : T(0.0f);
  }
}

template <class T>
NYSTROM_DEVICE std::uint32_t pair(const T* numbers) {
  return numbers[0].bits | static_cast<std::uint32_t>(numbers[1].bits) << 16;
}

/// sum += the convolution, for the warp's 16 rows of the block's result. `rows` are those of x in
/// shared memory, from the one that the first tap of the block's first row reads.
template <int Width, class T>
NYSTROM_DEVICE void multiply_by_band(Accumulator<Width>& sum, const T* band, int groups,
                                     const T* rows) {
  const int lane = lane_index(), g = lane / 4, t = lane % 4;
  const T* own = rows + (warp_index() * strip + lane % 16) * tile_stride<Width> + lane / 16 * 8;
  for (int group = 0; group < groups; ++group) {
    const T* diagonal = band + strip + group * strip + 2 * t - g;
    const std::uint32_t middle = pair(diagonal),
                        left[4] = {middle, pair(diagonal - 8), pair(diagonal + 8), middle};
    NYSTROM_UNROLL
    for (int c = 0; c < Width / 16; ++c) {
      std::uint32_t right[4];
      load_matrices_transposed(right, own + group * strip * tile_stride<Width> + c * 16);
      mma<T>(sum.part[2 * c], left, right[0], right[1]);
      mma<T>(sum.part[2 * c + 1], left, right[2], right[3]);
    }
  }
}

/// Sums over the block's rows i of ⟨left[i], rows[i + j]⟩ for each j below `taps`, in shared memory
/// of bytes_of_tap_sums.
template <int Warps>
class TapSums {
 public:
  NYSTROM_DEVICE TapSums(float* memory, int taps)
      : products_(memory), sums_(memory + Warps * patch), taps_(taps) {}

  /// Before the first add() and a barrier.
  NYSTROM_DEVICE void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < Warps * band_size(taps_);
         i += Warps * warp_size)
      sums_[i] = 0;
  }

  /// Adds the products of the warp's 16 rows `left` and of `rows`, which are those of the block.
  template <int Width, class T>
  NYSTROM_DEVICE void add(const LeftOperand<Width>& left, const T* rows) const {
    const int lane = lane_index(), g = lane / 4, t = lane % 4, first = warp_index() * strip;
    float* const product = products_ + warp_index() * patch;
    float* const sum = sums_ + warp_index() * band_size(taps_);
    for (int group = 0; group < groups_of(taps_); ++group) {
      const T* own = rows +
                     (first + group * strip + lane % 8 + lane / 16 * 8) * tile_stride<Width> +
                     lane / 8 % 2 * 8;
      float part[2][4] = {};
      NYSTROM_UNROLL
      for (int c = 0; c < Width / 16; ++c) {
        std::uint32_t right[4];
        load_matrices(right, own + c * 16);
        mma<T>(part[0], left.part[c], right[0], right[1]);
        mma<T>(part[1], left.part[c], right[2], right[3]);
      }
      NYSTROM_UNROLL
      for (int n = 0; n < 2; ++n) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i)
          product[(g + i / 2 * 8) * (strip + 1) + n * 8 + 2 * t + i % 2] = part[n][i];
      }
      __syncwarp();
      // Lane l < 31 has the diagonal column − row = l − 15, which is tap group · 16 + l − 15. Its
      // sum is 16 places after that.
      const int shift = lane - (strip - 1);
      float along = 0;
      for (int i = 0; i < strip; ++i)
        if (i + shift >= 0 && i + shift < strip) along += product[i * (strip + 1) + i + shift];
      if (shift < strip) sum[group * strip + shift + strip] += along;
      __syncwarp();
    }
  }

  /// The sum for j, after a barrier.
  NYSTROM_DEVICE float total(int j) const {
    float total = 0;
    for (int warp = 0; warp < Warps; ++warp) total += sums_[warp * band_size(taps_) + strip + j];
    return total;
  }

 private:
  static constexpr int patch = strip * (strip + 1);
  float *products_, *sums_;
  int taps_;
};

}  // namespace nystrom::cuda
