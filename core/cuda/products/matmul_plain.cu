// A simple matrix product with one thread an element, for f64 and as the reference for the
// library's products. It supports any strides and types.
#include "core/cuda/launch.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

/// The positions of a batch's matrices; batch axes of size 1 repeat.
struct Batch {
  std::int64_t shape[max_rank], stride[3][max_rank];
  int rank;
};

struct Sizes {
  std::int64_t count, rows, columns, depth;
  std::int64_t a_row, a_column, b_row, b_column, c_row, c_column;
};

template <class A>
__global__ void product_kernel(Mixed<A, true> a, Mixed<A, true> b, Mixed<A, true> bias,
                               Mixed<A, false> c, Batch batch, Sizes s, bool accumulate) {
  for (std::int64_t i = grid_index(); i < s.count; i += grid_size()) {
    const std::int64_t column = i % s.columns, row = i / s.columns % s.rows;
    std::int64_t rest = i / s.columns / s.rows, offset[3] = {0, 0, 0};
    for (int axis = batch.rank - 1; axis >= 0; --axis) {
      for (int v = 0; v < 3; ++v) offset[v] += rest % batch.shape[axis] * batch.stride[v][axis];
      rest /= batch.shape[axis];
    }
    const std::int64_t at = offset[2] + row * s.c_row + column * s.c_column;
    A sum = accumulate ? c.get(at) : A(0);
    if (bias.data) sum += bias.get(column);
    for (std::int64_t k = 0; k < s.depth; ++k)
      sum += a.get(offset[0] + row * s.a_row + k * s.a_column) *
             b.get(offset[1] + k * s.b_row + column * s.b_column);
    c.set(at, sum);
  }
}

Batch batch_of(const CView& a, const CView& b, const View& c) {
  Batch batch{};
  batch.rank = c.rank - 2;
  const ViewBase* views[] = {&a, &b, &c};
  for (int axis = 0; axis < batch.rank; ++axis) {
    batch.shape[axis] = c.shape[axis];
    for (int v = 0; v < 3; ++v) {
      const int own = axis - c.rank + views[v]->rank;
      batch.stride[v][axis] = own >= 0 && views[v]->shape[own] != 1 ? views[v]->stride[own] : 0;
    }
  }
  return batch;
}

}  // namespace

void matmul_plain(CView a, CView b, CView bias, View c, bool accumulate) {
  if (c.numel() == 0) return;
  const Sizes sizes{c.numel(),  c.dim(-2),  c.dim(-1),  a.dim(-1),  a.step(-2),
                    a.step(-1), b.step(-2), b.step(-1), c.step(-2), c.step(-1)};
  visit_accumulate(accumulate_dtype(a.dtype), [&]<class A>(TypeTag<A>) {
    launch(product_kernel<A>, dim3(blocks_for(c.numel(), 128)), dim3(128), 0, mixed<A>(a),
           mixed<A>(b), mixed<A>(bias), mixed<A>(c), batch_of(a, b, c), sizes, accumulate);
  });
}

}  // namespace nystrom::kernels::cuda
