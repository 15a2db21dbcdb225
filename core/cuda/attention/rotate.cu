// Rotary positions: a thread turns one pair of columns of one row.
#include "core/cuda/attention/attention_problem.cuh"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

template <class A>
__global__ void rotate_kernel(Heads<A, true> x, DeviceSpans spans, std::int64_t heads,
                              const A* table, A sign, Heads<A, false> y) {
  const std::int64_t half = x.width / 2, pairs = spans.count * heads * spans.longest * half;
  for (std::int64_t at = grid_index(); at < pairs; at += grid_size()) {
    const int c = static_cast<int>(at % half);
    const int r = static_cast<int>(at / half % spans.longest);
    const std::int64_t head = at / half / spans.longest;
    const Span span = spans[head / heads];
    if (r >= span.rows) continue;
    const auto from = x.of(span, head % heads);
    const auto to = y.of(span, head % heads);
    const A *angle = table + (r * half + c) * 2, cosine = angle[0], sine = sign * angle[1],
            a = from.numbers.get(from.at(r) + c), b = from.numbers.get(from.at(r) + half + c);
    to.numbers.set(to.at(r) + c, cosine * a - sine * b);
    to.numbers.set(to.at(r) + half + c, cosine * b + sine * a);
  }
}

}  // namespace

void rotate(CView x, Spans spans, CView table, bool backwards, View y) {
  visit_accumulate(table.dtype, [&]<class A>(TypeTag<A>) {
    const DeviceSpans rows = device_spans(spans, x);
    const std::int64_t pairs = rows.count * x.shape[1] * rows.longest * x.dim(-1) / 2;
    if (pairs == 0) return;
    launch(rotate_kernel<A>, dim3(blocks_for(pairs, 256)), dim3(256), 0, heads_of<A>(x), rows,
           x.shape[1], table.as<A>(), backwards ? A(-1) : A(1), heads_of<A>(y));
  });
}

}  // namespace nystrom::kernels::cuda
