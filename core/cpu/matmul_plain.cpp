// A blocked matrix product for f64, and the reference for the library's f32 and bf16 products.
#include "core/cpu/level.h"

#include "core/cpu/parallel.h"
#include "core/cpu/tile_gemm.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

constexpr std::int64_t row_block = 64, depth_block = 128, column_block = 256;

NYSTROM_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// The offset of batch element `index` of the result, in a view whose batch axes of size 1 repeat.
NYSTROM_INLINE std::int64_t batch_offset(const ViewBase& view, const ViewBase& result,
                                         std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = result.rank - 3; axis >= 0; --axis) {
    const int own = axis - result.rank + view.rank;
    if (own >= 0 && view.shape[own] != 1) offset += index % result.shape[axis] * view.stride[own];
    index /= result.shape[axis];
  }
  return offset;
}

/// Copies a block with any strides into rows of the accumulate type.
template <class A>
void pack(const CView& x, std::int64_t offset, std::int64_t row, std::int64_t column,
          std::int64_t rows, std::int64_t columns, A* target) {
  const std::int64_t sr = x.step(-2), sc = x.step(-1);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      load_row(x, offset + (row + r) * sr + (column + c) * sc, target + r * columns + c, 1);
  }
}

template <class A>
struct PlainScratch {
  Scratch<A> a, b, c, bias;
  PlainScratch()
      : a(row_block * depth_block),
        b(depth_block * column_block),
        c(row_block * column_block),
        bias(column_block) {}
};

template <class A>
void compute_block(const CView& a, const CView& b, const CView& bias, const View& c,
                   bool accumulate, std::int64_t batch, std::int64_t i, std::int64_t j,
                   const PlainScratch<A>& s) {
  const std::int64_t K = a.dim(-1), rows = smaller(row_block, c.dim(-2) - i),
                     columns = smaller(column_block, c.dim(-1) - j);
  const std::int64_t base = batch_offset(c, c, batch) + i * c.step(-2) + j;
  for (std::int64_t r = 0; r < rows; ++r) {
    A* sum = s.c.get() + r * columns;
    for (std::int64_t q = 0; q < columns; ++q) sum[q] = 0;
    if (accumulate) load_row(CView(c), base + r * c.step(-2), sum, columns);
    if (bias) {
      load_row(bias, j, s.bias.get(), columns);
      for (std::int64_t q = 0; q < columns; ++q) sum[q] += s.bias[q];
    }
  }
  for (std::int64_t k = 0; k < K; k += depth_block) {
    const std::int64_t depth = smaller(depth_block, K - k);
    pack(a, batch_offset(a, c, batch), i, k, rows, depth, s.a.get());
    pack(b, batch_offset(b, c, batch), k, j, depth, columns, s.b.get());
    tile_gemm<A>(rows, columns, depth, A(1), {s.a.get(), depth, 1}, s.b.get(), columns, s.c.get(),
                 columns, true);
  }
  for (std::int64_t r = 0; r < rows; ++r)
    store_row(c, base + r * c.step(-2), s.c.get() + r * columns, columns);
}

}  // namespace

void matmul_plain(CView a, CView b, CView bias, View c, bool accumulate) {
  const std::int64_t row_blocks = (c.dim(-2) + row_block - 1) / row_block,
                     column_blocks = (c.dim(-1) + column_block - 1) / column_block;
  const std::int64_t batch = c.numel() == 0 ? 0 : c.numel() / (c.dim(-2) * c.dim(-1));
  visit_accumulate(accumulate_dtype(a.dtype), [&]<class A>(TypeTag<A>) {
    parallel_ranges(
        batch * row_blocks * column_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
          const PlainScratch<A> scratch;
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t column = i % column_blocks, row = i / column_blocks % row_blocks,
                               element = i / column_blocks / row_blocks;
            compute_block(a, b, bias, c, accumulate, element, row * row_block,
                          column * column_block, scratch);
          }
        });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
