// Means over the segments of a sequence's valid tokens, and their gradient.
#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 128;

/// The positions of each sample's valid tokens in order: position [batch, length], count [batch].
/// One block a sample.
__global__ void valid_positions_kernel(const std::uint8_t* mask, std::int64_t length,
                                       std::int32_t* position, std::int32_t* count) {
  __shared__ int before_warp[warp_size];
  const std::uint8_t* valid = mask + blockIdx.x * length;
  std::int32_t* target = position + blockIdx.x * length;
  int found = 0;
  for (std::int64_t first = 0; first < length; first += block) {
    const std::int64_t t = first + threadIdx.x;
    const bool here = t < length && valid[t] != 0;
    const unsigned votes = __ballot_sync(whole_warp, here);
    if (lane_index() == 0) before_warp[warp_index()] = __popc(votes);
    __syncthreads();
    int place = found + __popc(votes & ((1u << lane_index()) - 1));
    for (int w = 0; w < block / warp_size; ++w) {
      if (w < warp_index()) place += before_warp[w];
      found += before_warp[w];
    }
    if (here) target[place] = static_cast<std::int32_t>(t);
    __syncthreads();
  }
  if (threadIdx.x == 0) count[blockIdx.x] = found;
}

/// The valid tokens of every sample; without a mask all tokens.
struct Tokens {
  const std::int32_t *position, *count;
  std::int64_t length;
  NYSTROM_DEVICE std::int64_t count_of(std::int64_t b) const { return count ? count[b] : length; }
  NYSTROM_DEVICE std::int64_t row(std::int64_t b, std::int64_t i) const {
    return b * length + (position ? position[b * length + i] : i);
  }
};

/// One block a segment; a thread takes V neighbouring columns.
template <class T, int V>
__global__ void means_kernel(const T* x, Tokens tokens, std::int64_t segments, std::int64_t width,
                             accumulate_t<T>* y) {
  using A = accumulate_t<T>;
  const std::int64_t b = blockIdx.x / segments, i = blockIdx.x % segments,
                     count = tokens.count_of(b);
  const std::int64_t first = i * count / segments, last = (i + 1) * count / segments;
  const A scale = last > first ? A(1) / static_cast<A>(last - first) : A(0);
  for (std::int64_t c = threadIdx.x * V; c < width; c += blockDim.x * V) {
    Pack<A, V> sum{};
    NYSTROM_UNROLL_4
    for (std::int64_t k = first; k < last; ++k) {
      const auto pack = load_pack<V>(x + tokens.row(b, k) * width + c);
      NYSTROM_UNROLL
      for (int j = 0; j < V; ++j) sum.value[j] += load(pack.value[j]);
    }
    NYSTROM_UNROLL
    for (int j = 0; j < V; ++j) sum.value[j] *= scale;
    store_pack(y + blockIdx.x * width + c, sum);
  }
}

/// The same division of the work. Rows are read together before they are written.
template <class T, int V>
__global__ void means_grad_kernel(const accumulate_t<T>* dy, Tokens tokens, std::int64_t segments,
                                  std::int64_t width, T* dx) {
  using A = accumulate_t<T>;
  constexpr int together = 4;
  const std::int64_t b = blockIdx.x / segments, i = blockIdx.x % segments,
                     count = tokens.count_of(b);
  const std::int64_t first = i * count / segments, last = (i + 1) * count / segments;
  for (std::int64_t c = threadIdx.x * V; c < width; c += blockDim.x * V) {
    auto grad = load_pack<V>(dy + blockIdx.x * width + c);
    NYSTROM_UNROLL
    for (int j = 0; j < V; ++j) grad.value[j] *= A(1) / static_cast<A>(last - first);
    for (std::int64_t k = first; k < last; k += together) {
      Pack<T, V> rows[together]{};
      NYSTROM_UNROLL
      for (int r = 0; r < together; ++r)
        if (k + r < last) rows[r] = load_pack<V>(dx + tokens.row(b, k + r) * width + c);
      NYSTROM_UNROLL
      for (int r = 0; r < together; ++r) {
        if (k + r >= last) continue;
        NYSTROM_UNROLL
        for (int j = 0; j < V; ++j)
          rows[r].value[j] = convert<T>(load(rows[r].value[j]) + grad.value[j]);
        store_pack(dx + tokens.row(b, k + r) * width + c, rows[r]);
      }
    }
  }
}

/// Owns the positions while kernels are launched.
class ValidTokens {
 public:
  ValidTokens(const CView& mask, const ViewBase& like, std::int64_t batch, std::int64_t length)
      : work_(like, mask ? batch * (length + 1) : 0), tokens_{nullptr, nullptr, length} {
    if (!mask) return;
    std::int32_t* position = work_.get();
    std::int32_t* count = position + batch * length;
    launch(valid_positions_kernel, dim3(static_cast<unsigned>(batch)), dim3(block), 0,
           mask.as<std::uint8_t>(), length, position, count);
    tokens_ = {position, count, length};
  }
  const Tokens& tokens() const { return tokens_; }

 private:
  Workspace<std::int32_t> work_;
  Tokens tokens_;
};

}  // namespace

void segment_means(CView x, CView mask, View y) {
  const ValidTokens valid(mask, y, x.shape[0], x.shape[1]);
  visit_any_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_pack<T>(x.shape[2], {x.data, y.data}, [&](auto pack) {
      launch(means_kernel<T, pack()>, dim3(static_cast<unsigned>(y.shape[0] * y.shape[1])),
             dim3(block), 0, x.as<T>(), valid.tokens(), y.shape[1], x.shape[2],
             y.as<accumulate_t<T>>());
    });
  });
}

void segment_means_grad(CView dy, CView mask, View dx) {
  const ValidTokens valid(mask, dx, dx.shape[0], dx.shape[1]);
  visit_any_float(dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_pack<T>(dx.shape[2], {dx.data, dy.data}, [&](auto pack) {
      launch(means_grad_kernel<T, pack()>, dim3(static_cast<unsigned>(dy.shape[0] * dy.shape[1])),
             dim3(block), 0, dy.as<accumulate_t<T>>(), valid.tokens(), dy.shape[1], dx.shape[2],
             dx.as<T>());
    });
  });
}

}  // namespace nystrom::kernels::cuda
