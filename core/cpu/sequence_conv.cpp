// Depthwise convolution along the sequence, one filter a head, as products with a small Toeplitz
// matrix. T[i, j] = w[j − i] maps block + k − 1 input rows to `block` output rows. It is the same
// at all positions.
#include "core/cpu/level.h"

#include <algorithm>

#include "core/cpu/parallel.h"
#include "core/cpu/tile_operands.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

// The output rows of one product: k of its block + k − 1 multiplications are useful.
constexpr std::int64_t block = 8;

/// The rows of one head of a span, with `halo` rows of zeros before and behind them.
template <class T>
NYSTROM_INLINE void load_with_halo(const CView& x, Head head, std::int64_t halo,
                                   std::int64_t length, T* rows) {
  const std::int64_t width = operands<T>(x.dim(-1));
  std::fill_n(rows, halo * width, T{});
  load_rows<T>(x, head, nullptr, 0, head.rows, rows + halo * width);
  std::fill_n(rows + (halo + head.rows) * width, (length - halo - head.rows) * width, T{});
}

/// The Toeplitz matrix [block, block + k − 1] of the taps, or of the reversed taps.
template <class T>
struct Toeplitz {
  using A = SumOf<T>;
  std::int64_t columns;
  Scratch<A> numbers;
  Scratch<T> rounded;
  explicit Toeplitz(std::int64_t k)
      : columns(block + k - 1), numbers(block * columns), rounded(block * columns) {}

  const T* fill(const CView& w, std::int64_t h, bool reversed) const {
    const std::int64_t k = w.shape[1];
    std::fill_n(numbers.get(), block * columns, A(0));
    for (std::int64_t j = 0; j < k; ++j) {
      A tap = 0;  // g++ 12 takes it for unset where it does not inline load_row
      load_row(w, h * k + (reversed ? k - 1 - j : j), &tap, 1);
      for (std::int64_t i = 0; i < block; ++i) numbers[i * columns + i + j] = tap;
    }
    if constexpr (std::is_same_v<T, Bf16Pair>) {
      convert_row(numbers.get(), reinterpret_cast<bf16*>(rounded.get()), block * columns);
      return rounded.get();
    } else {
      return numbers.get();
    }
  }
};

/// target[t, :] = Σ_j taps[j] · rows[t + j, :] + addend for one head, from rows as operands of
/// sums. scratch: [block + 1, d].
template <class T>
void convolve(const T* toeplitz, std::int64_t k, const T* rows, const CView& addend, Head of_addend,
              SumOf<T>* scratch, const View& y, Head of_y) {
  using A = SumOf<T>;
  const std::int64_t n = of_y.rows, d = y.dim(-1), columns = operands<T>(block + k - 1);
  A* const before = scratch + block * d;
  for (std::int64_t t = 0; t < n; t += block) {
    const std::int64_t count = n - t < block ? n - t : block;
    tile_gemm<T>(count, d, operands<T>(count + k - 1), A(1), {toeplitz, columns, 1},
                 rows + operands<T>(t) * d, d, scratch, d, false);
    for (std::int64_t i = 0; i < count; ++i) {
      if (addend) {
        load_row(addend, of_addend.offset + (t + i) * of_addend.row, before, d);
        for (std::int64_t c = 0; c < d; ++c) scratch[i * d + c] += before[c];
      }
      store_row(y, of_y.offset + (t + i) * of_y.row, scratch + i * d, d);
    }
  }
}

/// The columns of the Gram matrix of a block: the block + k − 1 useful ones, rounded up to whole
/// vectors.
template <class A>
std::int64_t gram_columns(std::int64_t k) {
  return whole_vectors<A>(block + k - 1);
}

/// taps[j] = Σ_t ⟨dy[t], x[t + j − k/2]⟩: the diagonals of the Gram matrices of blocks of dy and x,
/// summed over the blocks. The x_columns [operands(d), length] have gram_columns numbers after row
/// n.
template <class T>
void tap_gradient(const T* dy_rows, const T* x_columns, std::int64_t length, std::int64_t n,
                  std::int64_t d, std::int64_t k, SumOf<T>* gram, SumOf<T>* taps) {
  using A = SumOf<T>;
  const std::int64_t columns = gram_columns<A>(k), width = operands<T>(d);
  std::fill_n(gram, block * columns, A(0));
  for (std::int64_t t = 0; t < n; t += block) {
    const std::int64_t count = n - t < block ? n - t : block;
    tile_gemm<T>(count, columns, width, A(1), {dy_rows + t * width, width, 1}, x_columns + t,
                 length, gram, columns, true);
  }
  for (std::int64_t j = 0; j < k; ++j) {
    taps[j] = 0;
    for (std::int64_t i = 0; i < block; ++i) taps[j] += gram[i * columns + i + j];
  }
}

bool uses_pairs(const CView& x, const CView& w) {
  return x.dtype == DType::bf16 && w.dtype == DType::bf16 && pairs_fit(x.dim(-1));
}

}  // namespace

void sequence_conv(CView x, CView w, Spans spans, CView addend, View y) {
  const std::int64_t parts = parts_of(x, spans), d = x.dim(-1), k = w.shape[1];
  const std::int64_t longest = spans.bounds ? spans.longest : x.shape[2];
  visit_operands(uses_pairs(x, w), accumulate_dtype(x.dtype), [&]<class T>(TypeTag<T>) {
    const std::int64_t most = longest + k;  // one row more than the halos, for an odd last pair
    parallel_ranges(parts * x.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<T> rows(most * operands<T>(d)), interleaved(operands<T>(most) * d);
      const Scratch<SumOf<T>> out((block + 1) * d);
      const Toeplitz<T> toeplitz(k);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t h = i / parts, part = i % parts;
        const Head of_x = head_of(x, spans, part, h);
        const std::int64_t length = of_x.rows + k;
        load_with_halo<T>(x, of_x, k / 2, length, rows.get());
        convolve<T>(toeplitz.fill(w, h, false), k,
                    interleave<T>(rows.get(), length, d, interleaved.get()), addend,
                    head_of(addend, spans, part, h), out.get(), y, head_of(y, spans, part, h));
      }
    });
  });
}

void sequence_conv_grad(CView x, CView w, Spans spans, CView dy, CView addend, View dx, View dw) {
  const std::int64_t parts = parts_of(x, spans), heads = x.shape[1], d = x.dim(-1), k = w.shape[1];
  const std::int64_t longest = spans.bounds ? spans.longest : x.shape[2];
  visit_operands(
      uses_pairs(x, w) && dy.dtype == DType::bf16, accumulate_dtype(x.dtype),
      [&]<class T>(TypeTag<T>) {
        using A = SumOf<T>;
        const Scratch<A> taps(parts * heads * k);
        const std::int64_t gram = gram_columns<A>(k), most = longest + gram, width = operands<T>(d);
        parallel_ranges(parts * heads, 1, [&](std::int64_t begin, std::int64_t end) {
          const Scratch<T> rows(most * width), other(operands<T>(most) * d);
          const Scratch<A> products(block * gram), out((block + 1) * d);
          const Toeplitz<T> toeplitz(k);
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t h = i / parts, part = i % parts;
            const Head of_x = head_of(x, spans, part, h);
            const std::int64_t n = of_x.rows, length = n + gram;
            load_with_halo<T>(x, of_x, k / 2, length, rows.get());
            transpose_block(rows.get(), length, width, width, other.get(), length);
            load_with_halo<T>(dy, head_of(dy, spans, part, h), k / 2, length, rows.get());
            tap_gradient<T>(rows.get() + k / 2 * width, other.get(), length, n, d, k,
                            products.get(), taps.get() + (part * heads + h) * k);
            convolve<T>(toeplitz.fill(w, h, true), k,
                        interleave<T>(rows.get(), length, d, other.get()), addend,
                        head_of(addend, spans, part, h), out.get(), dx,
                        head_of(dx, spans, part, h));
          }
        });
        for (std::int64_t i = 0; i < parts * heads * k; ++i) dw.as<A>()[i % (heads * k)] += taps[i];
      });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
