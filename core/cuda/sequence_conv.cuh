// The common part of the two depthwise convolutions: the plain one for any type and width, and the
// one on tensor cores.
#pragma once

#include "core/cuda/launch.cuh"
#include "core/view.h"

namespace nystrom::cuda {

/// A [b, n, h, d] view with unit columns.
template <class T>
struct Rows {
  T* data;
  std::int64_t sample, row, head;
  NYSTROM_DEVICE T* at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return data + b * sample + t * row + h * head;
  }
};

template <class T, class V>
Rows<T> rows_of(const V& view) {
  return {view.template as<std::remove_const_t<T>>(), view.stride[0], view.stride[1],
          view.stride[2]};
}

/// A block computes `tile` rows of at most `channels` channels of one head.
template <int tile, int channels>
struct ConvProblem {
  std::int64_t batch, length, heads, width, taps;
  __host__ __device__ std::int64_t tiles() const { return (length + tile - 1) / tile; }
  __host__ __device__ std::int64_t slices() const { return (width + channels - 1) / channels; }
  std::int64_t pieces() const { return batch * tiles() * slices(); }  ///< pieces of a head
  dim3 blocks() const { return dim3(static_cast<unsigned>(pieces() * heads)); }
};

/// The piece that this block computes.
template <int tile, int channels>
struct ConvPlace {
  std::int64_t b, h, first, column, piece;
  int count;  // channels
  NYSTROM_DEVICE explicit ConvPlace(const ConvProblem<tile, channels>& p) {
    const std::int64_t slices = p.slices(), tiles = p.tiles(), index = blockIdx.x;
    column = index % slices * channels;
    first = index / slices % tiles * tile;
    h = index / slices / tiles % p.heads;
    b = index / slices / tiles / p.heads;
    piece = (b * tiles + first / tile) * slices + index % slices;
    count = static_cast<int>(p.width - column < channels ? p.width - column : channels);
  }
};

/// Throws an InputError that names the taps if a block has less than `shared` bytes of shared
/// memory.
void require_room_for_taps(std::size_t shared, std::int64_t taps);

/// Whether the tensor cores support these operands: 16 bits, a multiple of 32 channels, and rows
/// aligned to 16 bytes.
bool fused_conv_fits(std::initializer_list<CView> operands);
/// kernels::sequence_conv and kernels::sequence_conv_grad.
void sequence_conv_fused(const CView& x, const CView& w, const CView& mask, const CView& addend,
                         const View& y);
void sequence_conv_fused_grad(const CView& x, const CView& w, const CView& mask, const CView& dy,
                              const CView& addend, const View& dx, const View& dw);

}  // namespace nystrom::cuda
