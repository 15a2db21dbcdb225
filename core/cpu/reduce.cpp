// Sums. Work is cut by size alone, never by the number of threads, so that results do not depend on it.
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
  *target = convert<Out>(accumulate ? load(*target) + static_cast<accumulate_t<Out>>(sum) : static_cast<accumulate_t<Out>>(sum));
}

template <class T, class Out>
void sum_rows(const CView& x, const View& y, bool accumulate) {
  const std::int64_t outer = x.shape[0], reduced = x.shape[1];
  parallel_ranges(outer, elementwise_grain / (reduced + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const T* row = x.as<T>() + o * reduced;
      accumulate_t<T> sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t r = 0; r < reduced; ++r) sum += load(row[r]);
      store_sum<T, Out>(y, o, sum, accumulate);
    }
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
    for (std::int64_t i = 0; i < inner; ++i) store_sum<T, Out>(y, o * inner + i, sums.total(i), accumulate);
  }
}

}  // namespace

void sum_middle(CView x, View y, bool accumulate) {
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto out) {
      using Out = typename decltype(out)::type;
      x.shape[2] == 1 ? sum_rows<T, Out>(x, y, accumulate) : sum_columns<T, Out>(x, y, accumulate);
    };
    y.dtype == x.dtype ? run(TypeTag<T>{}) : run(TypeTag<accumulate_t<T>>{});
  });
}

void sum_of_squares(CView x, View y) {
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = x.as<T>();
    const std::int64_t n = x.numel();
    constexpr std::int64_t block = 1 << 16;
    const std::int64_t blocks = (n + block - 1) / block;
    const Scratch<double> partial(blocks);
    parallel_ranges(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t last = (b + 1) * block < n ? (b + 1) * block : n;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = b * block; i < last; ++i) sum += static_cast<double>(load(data[i])) * static_cast<double>(load(data[i]));
        partial[b] = sum;
      }
    });
    double total = 0;
    for (std::int64_t b = 0; b < blocks; ++b) total += partial[b];
    *y.as<double>() = total;
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
