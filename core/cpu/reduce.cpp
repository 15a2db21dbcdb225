// Sums. The division of work depends on sizes only, not on the number of threads, and so do the
// results.
#include "core/cpu/level.h"

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/cpu/reduce.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

template <class T, class Out>
void store_sum(const View& y, std::int64_t index, accumulate_t<T> sum, bool accumulate) {
  Out* target = y.as<Out>() + index;
  *target = convert<Out>(accumulate ? load(*target) + static_cast<accumulate_t<Out>>(sum)
                                    : static_cast<accumulate_t<Out>>(sum));
}

template <class T>
NYSTROM_INLINE accumulate_t<T> sum_of(const T* data, std::int64_t n) {
  accumulate_t<T> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += load(data[i]);
  return sum;
}

template <class T, class Out>
void sum_rows(const CView& x, const View& y, bool accumulate) {
  const std::int64_t outer = x.shape[0], reduced = x.shape[1];
  parallel_each(outer, row_grain(reduced), [&](std::int64_t o) {
    const T* row = x.as<T>() + o * reduced;
    double total = 0;  // a long row would outgrow its addends
    for (std::int64_t first = 0; first < reduced; first += addends)
      total += static_cast<double>(
          sum_of(row + first, reduced - first < addends ? reduced - first : addends));
    store_sum<T, Out>(y, o, static_cast<accumulate_t<T>>(total), accumulate);
  });
}

template <class T, class Out>
void sum_columns(const CView& x, const View& y, bool accumulate) {
  const std::int64_t outer = x.shape[0], reduced = x.shape[1], inner = x.shape[2];
  const ColumnSums<accumulate_t<T>> sums(reduced, inner);
  for (std::int64_t o = 0; o < outer; ++o) {
    const T* block = x.as<T>() + o * reduced * inner;
    sums.run([&](std::int64_t r, accumulate_t<T>* __restrict sum) {
      const T* __restrict row = block + r * inner;
      for (std::int64_t i = 0; i < inner; ++i) sum[i] += load(row[i]);
    });
    for (std::int64_t i = 0; i < inner; ++i)
      store_sum<T, Out>(y, o * inner + i, sums.total(i), accumulate);
  }
}

/// Σ of piece(first, count) over consecutive pieces of n elements, added in their order.
template <class Sum, class Piece>
NYSTROM_INLINE Sum sum_of_pieces(std::int64_t n, const Piece& piece) {
  constexpr std::int64_t most = 1 << 16;
  const std::int64_t pieces = (n + most - 1) / most;
  const Scratch<Sum> partial(pieces);
  parallel_each(pieces, 1, [&](std::int64_t i) {
    partial[i] = piece(i * most, n - i * most < most ? n - i * most : most);
  });
  Sum total = 0;
  for (std::int64_t i = 0; i < pieces; ++i) total += partial[i];
  return total;
}

/// A separate function: reads through a closure would prevent vectorisation of the loop.
template <class T>
NYSTROM_INLINE double squares(const T* data, std::int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(load(data[i])) * static_cast<double>(load(data[i]));
  return sum;
}

/// The words first … first + n − 1.
template <class Word>
NYSTROM_INLINE std::uint64_t weighted_bits(const Word* words, std::uint64_t first, std::int64_t n) {
  std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<std::uint64_t>(words[i]) *
           static_cast<std::uint32_t>(2 * (first + static_cast<std::uint64_t>(i)) + 1);
  return sum;
}

}  // namespace

void sum_middle(CView x, View y, bool accumulate) {
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    const auto run = [&]<class Out>(TypeTag<Out>) {
      x.shape[2] == 1 ? sum_rows<T, Out>(x, y, accumulate) : sum_columns<T, Out>(x, y, accumulate);
    };
    y.dtype == x.dtype ? run(TypeTag<T>{}) : run(TypeTag<accumulate_t<T>>{});
  });
}

void sum_of_squares(CView x, View y) {
  visit_float(x.dtype, [&](auto tag) {
    const auto* data = x.as<typename decltype(tag)::type>();
    *y.as<double>() = sum_of_pieces<double>(
        x.numel(), [=](std::int64_t first, std::int64_t n) { return squares(data + first, n); });
  });
}

void bit_sum(CView x, View y) {
  visit_float(x.dtype, [&](auto tag) {
    const auto* words = x.as<bits_t<typename decltype(tag)::type>>();
    *y.as<std::uint64_t>() =
        sum_of_pieces<std::uint64_t>(x.numel(), [=](std::int64_t first, std::int64_t n) {
          return weighted_bits(words + first, static_cast<std::uint64_t>(first), n);
        });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
