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

/// The rows of one head and sample, with `halo` rows of zeros before them, which the caller wrote.
/// Masked rows are zero.
template <class T>
NYSTROM_INLINE void load_after_halo(const CView& x, const std::uint8_t* valid, std::int64_t b,
                                    std::int64_t h, std::int64_t halo, T* rows) {
  const Head head{b * x.stride[0] + h * x.stride[2], x.stride[1]};
  load_rows<T>(x, head, valid, 0, x.shape[1], rows + halo * operands<T>(x.shape[3]));
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
      A tap;
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
void convolve(const T* toeplitz, std::int64_t k, const T* rows, std::int64_t b, std::int64_t h,
              const std::uint8_t* valid, const CView& addend, SumOf<T>* scratch, const View& y) {
  using A = SumOf<T>;
  const std::int64_t n = y.shape[1], d = y.shape[3], columns = operands<T>(block + k - 1);
  A* const before = scratch + block * d;
  for (std::int64_t t = 0; t < n; t += block) {
    const std::int64_t count = n - t < block ? n - t : block;
    tile_gemm<T>(count, d, operands<T>(count + k - 1), A(1), {toeplitz, columns, 1},
                 rows + operands<T>(t) * d, d, scratch, d, false);
    for (std::int64_t i = 0; i < count; ++i) {
      if (valid && !valid[t + i])
        for (std::int64_t c = 0; c < d; ++c) scratch[i * d + c] = 0;
      const std::int64_t at = b * y.stride[0] + (t + i) * y.stride[1] + h * y.stride[2];
      if (addend) {
        load_row(addend, b * addend.stride[0] + (t + i) * addend.stride[1] + h * addend.stride[2],
                 before, d);
        for (std::int64_t c = 0; c < d; ++c) scratch[i * d + c] += before[c];
      }
      store_row(y, at, scratch + i * d, d);
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
  return x.dtype == DType::bf16 && w.dtype == DType::bf16 && pairs_fit(x.shape[3]);
}

}  // namespace

void sequence_conv(CView x, CView w, CView mask, CView addend, View y) {
  const std::int64_t n = x.shape[1], heads = x.shape[2], d = x.shape[3], k = w.shape[1];
  visit_operands(uses_pairs(x, w), accumulate_dtype(x.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t length = n + k;  // one row more than the halos, for an odd last pair
    parallel_ranges(x.shape[0] * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<T> rows(length * operands<T>(d)), interleaved(operands<T>(length) * d);
      const Scratch<SumOf<T>> out((block + 1) * d);
      const Toeplitz<T> toeplitz(k);
      std::fill_n(rows.get(), length * operands<T>(d), T{});
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / heads, h = i % heads;
        load_after_halo<T>(x, valid_rows(mask, b), b, h, k / 2, rows.get());
        convolve<T>(toeplitz.fill(w, h, false), k,
                    interleave<T>(rows.get(), length, d, interleaved.get()), b, h, nullptr, addend,
                    out.get(), y);
      }
    });
  });
}

void sequence_conv_grad(CView x, CView w, CView mask, CView dy, CView addend, View dx, View dw) {
  const std::int64_t n = x.shape[1], heads = x.shape[2], d = x.shape[3], k = w.shape[1];
  visit_operands(
      uses_pairs(x, w) && dy.dtype == DType::bf16, accumulate_dtype(x.dtype), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using A = SumOf<T>;
        const Scratch<A> taps(x.shape[0] * heads * k);
        const std::int64_t gram = gram_columns<A>(k), length = n + gram, width = operands<T>(d);
        parallel_ranges(x.shape[0] * heads, 1, [&](std::int64_t begin, std::int64_t end) {
          const Scratch<T> rows(length * width), other(operands<T>(length) * d);
          const Scratch<A> products(block * gram), out((block + 1) * d);
          const Toeplitz<T> toeplitz(k);
          std::fill_n(rows.get(), length * width, T{});
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t b = i / heads, h = i % heads;
            load_after_halo<T>(x, valid_rows(mask, b), b, h, k / 2, rows.get());
            transpose_block(rows.get(), length, width, width, other.get(), length);
            load_after_halo<T>(dy, nullptr, b, h, k / 2, rows.get());
            tap_gradient<T>(rows.get() + k / 2 * width, other.get(), length, n, d, k,
                            products.get(), taps.get() + i * k);
            convolve<T>(toeplitz.fill(w, h, true), k,
                        interleave<T>(rows.get(), length, d, other.get()), b, h,
                        valid_rows(mask, b), addend, out.get(), dx);
          }
        });
        for (std::int64_t i = 0; i < x.shape[0] * heads * k; ++i)
          dw.as<A>()[i % (heads * k)] += taps[i];
      });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
