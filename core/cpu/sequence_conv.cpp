// Depthwise convolution along the sequence, one filter a head, as products with a small Toeplitz
// matrix. T[i, j] = w[j − i] maps block + k − 1 input rows to `block` output rows. It is the same
// at all positions.
#include "core/cpu/level.h"

#include <algorithm>

#include "core/cpu/parallel.h"
#include "core/cpu/tile_gemm.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

// The output rows of one product: k of its block + k − 1 multiplications are useful.
constexpr std::int64_t block = 8;

/// The rows of one head and sample in the accumulate type, with `halo` zero rows on both sides.
/// Masked rows are zero.
template <class A>
void load_padded(const CView& x, const std::uint8_t* valid, std::int64_t b, std::int64_t h,
                 std::int64_t halo, A* rows) {
  const std::int64_t n = x.shape[1], d = x.shape[3];
  for (std::int64_t i = 0; i < halo * d; ++i) rows[i] = rows[(halo + n) * d + i] = 0;
  for (std::int64_t t = 0; t < n; ++t) {
    A* row = rows + (halo + t) * d;
    if (!valid || valid[t]) {
      load_row(x, b * x.stride[0] + t * x.stride[1] + h * x.stride[2], row, d);
    } else {
      for (std::int64_t i = 0; i < d; ++i) row[i] = 0;
    }
  }
}

/// The Toeplitz matrix [block, block + k − 1] of the taps, or of the reversed taps.
template <class A>
void fill_toeplitz(const CView& w, std::int64_t h, bool reversed, A* matrix) {
  const std::int64_t k = w.shape[1], columns = block + k - 1;
  for (std::int64_t i = 0; i < block * columns; ++i) matrix[i] = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    A tap;
    load_row(w, h * k + (reversed ? k - 1 - j : j), &tap, 1);
    for (std::int64_t i = 0; i < block; ++i) matrix[i * columns + i + j] = tap;
  }
}

/// target[t, :] = Σ_j taps[j] · rows[t + j, :] for one head.
template <class A>
void convolve(const A* toeplitz, std::int64_t k, const A* rows, std::int64_t b, std::int64_t h,
              const std::uint8_t* valid, A* scratch, const View& y) {
  const std::int64_t n = y.shape[1], d = y.shape[3], columns = block + k - 1;
  for (std::int64_t t = 0; t < n; t += block) {
    const std::int64_t count = n - t < block ? n - t : block;
    tile_gemm<A>(count, d, count + k - 1, A(1), {toeplitz, columns, 1}, rows + t * d, d, scratch, d,
                 false);
    for (std::int64_t i = 0; i < count; ++i) {
      if (valid && !valid[t + i])
        for (std::int64_t c = 0; c < d; ++c) scratch[i * d + c] = 0;
      store_row(y, b * y.stride[0] + (t + i) * y.stride[1] + h * y.stride[2], scratch + i * d, d);
    }
  }
}

NYSTROM_INLINE const std::uint8_t* valid_rows(const CView& mask, std::int64_t b) {
  return mask ? mask.as<std::uint8_t>() + b * mask.shape[1] : nullptr;
}

/// The columns of the Gram matrix of a block: the block + k − 1 useful ones, rounded up to whole
/// vectors.
template <class A>
std::int64_t gram_columns(std::int64_t k) {
  constexpr std::int64_t lanes = Vector<A>::lanes;
  return (block + k - 1 + lanes - 1) / lanes * lanes;
}

/// taps[j] = Σ_t ⟨dy[t], x[t + j − k/2]⟩: the diagonals of the Gram matrices of blocks of dy and x,
/// summed over the blocks. The x_columns [d, length] have gram_columns numbers after row n.
template <class A>
void tap_gradient(const A* dy_rows, const A* x_columns, std::int64_t length, std::int64_t n,
                  std::int64_t d, std::int64_t k, A* gram, A* taps) {
  const std::int64_t columns = gram_columns<A>(k);
  for (std::int64_t i = 0; i < block * columns; ++i) gram[i] = 0;
  for (std::int64_t t = 0; t < n; t += block) {
    const std::int64_t count = n - t < block ? n - t : block;
    tile_gemm<A>(count, columns, d, A(1), {dy_rows + t * d, d, 1}, x_columns + t, length, gram,
                 columns, true);
  }
  for (std::int64_t j = 0; j < k; ++j) {
    taps[j] = 0;
    for (std::int64_t i = 0; i < block; ++i) taps[j] += gram[i * columns + i + j];
  }
}

}  // namespace

void sequence_conv(CView x, CView w, CView mask, View y) {
  const std::int64_t n = x.shape[1], heads = x.shape[2], d = x.shape[3], k = w.shape[1];
  visit_accumulate(accumulate_dtype(x.dtype), [&](auto tag) {
    using A = typename decltype(tag)::type;
    parallel_ranges(x.shape[0] * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<A> rows((n + k - 1) * d), toeplitz(block * (block + k - 1)), out(block * d);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / heads, h = i % heads;
        load_padded(x, valid_rows(mask, b), b, h, k / 2, rows.get());
        fill_toeplitz(w, h, false, toeplitz.get());
        convolve<A>(toeplitz.get(), k, rows.get(), b, h, nullptr, out.get(), y);
      }
    });
  });
}

void sequence_conv_grad(CView x, CView w, CView mask, CView dy, View dx, View dw) {
  const std::int64_t n = x.shape[1], heads = x.shape[2], d = x.shape[3], k = w.shape[1];
  visit_accumulate(accumulate_dtype(x.dtype), [&](auto tag) {
    using A = typename decltype(tag)::type;
    const Scratch<A> taps(x.shape[0] * heads * k);
    const std::int64_t gram = gram_columns<A>(k), length = n + gram;
    parallel_ranges(x.shape[0] * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<A> rows(length * d), columns(length * d), products(block * gram),
          out(block * d);
      std::fill_n(rows.get(), length * d, A(0));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / heads, h = i % heads;
        load_padded(x, valid_rows(mask, b), b, h, k / 2, rows.get());
        transpose_block(rows.get(), length, d, d, columns.get(), length);
        load_padded(dy, nullptr, b, h, k / 2, rows.get());
        fill_toeplitz(w, h, true, products.get());
        convolve<A>(products.get(), k, rows.get(), b, h, valid_rows(mask, b), out.get(), dx);
        tap_gradient(rows.get() + k / 2 * d, columns.get(), length, n, d, k, products.get(),
                     taps.get() + i * k);
      }
    });
    for (std::int64_t i = 0; i < x.shape[0] * heads * k; ++i)
      dw.as<A>()[i % (heads * k)] += taps[i];
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
