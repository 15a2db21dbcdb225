// Means over the segments of each span, and their gradient.
#include "core/cuda/launch.cuh"
#include "core/cuda/spans.cuh"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 128;

/// The most rows that one sum of the accumulate type adds up: a longer one outgrows its addends.
constexpr std::int64_t addends = 1024;

/// The rows of a segment, in a tensor whose places on the first axis are `stride` numbers apart.
struct Segment {
  std::int64_t begin, rows;  // the first number, and how many rows
  NYSTROM_DEVICE Segment(const DeviceSpans& spans, std::int64_t segments, std::int64_t stride,
                         std::int64_t width) {
    const std::int64_t i = blockIdx.x % segments;
    const Span span = spans[blockIdx.x / segments];
    const std::int64_t first = i * span.rows / segments;
    begin = span.first * stride + first * width;
    rows = (i + 1) * span.rows / segments - first;
  }
};

/// One block a segment; a thread takes V neighbouring columns.
template <class T, int V>
__global__ void means_kernel(const T* x, DeviceSpans spans, std::int64_t segments,
                             std::int64_t stride, std::int64_t width, accumulate_t<T>* y) {
  using A = accumulate_t<T>;
  const Segment segment(spans, segments, stride, width);
  const A scale = segment.rows > 0 ? A(1) / static_cast<A>(segment.rows) : A(0);
  for (std::int64_t c = threadIdx.x * V; c < width; c += blockDim.x * V) {
    double total[V] = {};
    Pack<A, V> sum{};
    for (std::int64_t first = 0; first < segment.rows; first += addends) {
      const std::int64_t last = first + addends < segment.rows ? first + addends : segment.rows;
      sum = {};
      NYSTROM_UNROLL_4
      for (std::int64_t k = first; k < last; ++k) {
        const auto pack = load_pack<V>(x + segment.begin + k * width + c);
        NYSTROM_UNROLL
        for (int j = 0; j < V; ++j) sum.value[j] += load(pack.value[j]);
      }
      NYSTROM_UNROLL
      for (int j = 0; j < V; ++j) total[j] += static_cast<double>(sum.value[j]);
    }
    NYSTROM_UNROLL
    for (int j = 0; j < V; ++j) sum.value[j] = static_cast<A>(total[j]) * scale;
    store_pack(y + blockIdx.x * width + c, sum);
  }
}

/// The same division of the work. Rows are read together before they are written.
template <class T, int V>
__global__ void means_grad_kernel(const accumulate_t<T>* dy, DeviceSpans spans,
                                  std::int64_t segments, std::int64_t stride, std::int64_t width,
                                  T* dx) {
  using A = accumulate_t<T>;
  constexpr int together = 4;
  const Segment segment(spans, segments, stride, width);
  for (std::int64_t c = threadIdx.x * V; c < width; c += blockDim.x * V) {
    auto grad = load_pack<V>(dy + blockIdx.x * width + c);
    NYSTROM_UNROLL
    for (int j = 0; j < V; ++j) grad.value[j] *= A(1) / static_cast<A>(segment.rows);
    for (std::int64_t k = 0; k < segment.rows; k += together) {
      Pack<T, V> rows[together]{};
      NYSTROM_UNROLL
      for (int r = 0; r < together; ++r)
        if (k + r < segment.rows) rows[r] = load_pack<V>(dx + segment.begin + (k + r) * width + c);
      NYSTROM_UNROLL
      for (int r = 0; r < together; ++r) {
        if (k + r >= segment.rows) continue;
        NYSTROM_UNROLL
        for (int j = 0; j < V; ++j)
          rows[r].value[j] = convert<T>(load(rows[r].value[j]) + grad.value[j]);
        store_pack(dx + segment.begin + (k + r) * width + c, rows[r]);
      }
    }
  }
}

}  // namespace

void segment_means(CView x, Spans spans, View y) {
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    with_pack<T>(x.dim(-1), {x.data, y.data}, [&](auto pack) {
      launch(means_kernel<T, pack()>, dim3(static_cast<unsigned>(y.shape[0] * y.shape[1])),
             dim3(block), 0, x.as<T>(), device_spans(spans, x), y.shape[1], x.stride[0], x.dim(-1),
             y.as<accumulate_t<T>>());
    });
  });
}

void segment_means_grad(CView dy, Spans spans, View dx) {
  visit_any_float(dx.dtype, [&]<class T>(TypeTag<T>) {
    with_pack<T>(dx.dim(-1), {dx.data, dy.data}, [&](auto pack) {
      launch(means_grad_kernel<T, pack()>, dim3(static_cast<unsigned>(dy.shape[0] * dy.shape[1])),
             dim3(block), 0, dy.as<accumulate_t<T>>(), device_spans(spans, dx), dy.shape[1],
             dx.stride[0], dx.dim(-1), dx.as<T>());
    });
  });
}

}  // namespace nystrom::kernels::cuda
