// The common part of the two depthwise convolutions: the plain one for any type and width, and the
// one on tensor cores.
#pragma once

#include "core/cuda/launch.cuh"
#include "core/cuda/spans.cuh"

namespace nystrom::cuda {

/// A [r, h, d] or [p, h, n, d] view with unit columns.
template <class T>
struct Rows {
  T* data;
  std::int64_t first, head;  // strides
  int row;
  NYSTROM_DEVICE T* at(Span span, std::int64_t h, int t) const {
    return data + span.first * first + h * head + std::int64_t{t} * row;
  }
};

template <class T, class V>
Rows<T> rows_of(const V& view) {
  return {view.template as<std::remove_const_t<T>>(), view.stride[0], view.stride[1],
          static_cast<int>(view.stride[view.rank == 3 ? 0 : 2])};
}

/// A block computes `tile` rows of at most `channels` channels of one head.
template <int tile, int channels>
struct ConvProblem {
  DeviceSpans spans;
  std::int64_t heads, width, taps;
  ConvProblem(const Spans& of_x, const CView& x, const CView& w)
      : spans(device_spans(of_x, x)), heads(x.shape[1]), width(x.dim(-1)), taps(w.shape[1]) {}
  __host__ __device__ std::int64_t tiles() const { return (spans.longest + tile - 1) / tile; }
  __host__ __device__ std::int64_t slices() const { return (width + channels - 1) / channels; }
  std::int64_t pieces() const { return spans.count * tiles() * slices(); }  ///< pieces of a head
  dim3 blocks() const { return dim3(static_cast<unsigned>(pieces() * heads)); }
};

/// The piece that this block computes. It may lie behind its span's end.
template <int tile, int channels>
struct ConvPlace {
  Span span;
  std::int64_t h, piece;
  int first, column, count;  // the first row, and the channels
  NYSTROM_DEVICE explicit ConvPlace(const ConvProblem<tile, channels>& p) {
    const std::int64_t slices = p.slices(), tiles = p.tiles(), index = blockIdx.x;
    column = static_cast<int>(index % slices) * channels;
    first = static_cast<int>(index / slices % tiles) * tile;
    h = index / slices / tiles % p.heads;
    const std::int64_t b = index / slices / tiles / p.heads;
    span = p.spans[b];
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
void sequence_conv_fused(const CView& x, const CView& w, const Spans& spans, const CView& addend,
                         const View& y);
void sequence_conv_fused_grad(const CView& x, const CView& w, const Spans& spans, const CView& dy,
                              const CView& addend, const View& dx, const View& dw);

}  // namespace nystrom::cuda
