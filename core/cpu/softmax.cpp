// Softmax, cross-entropy, the largest entry and a drawn one, over rows.
#include "core/cpu/level.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/kernels.h"
#include "core/math.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

template <class T>
NYSTROM_INLINE accumulate_t<T> row_max(const T* row, std::int64_t n) {
  accumulate_t<T> largest = load(row[0]);
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = load(row[i]) > largest ? load(row[i]) : largest;
  return largest;
}

template <class T>
NYSTROM_INLINE accumulate_t<T> sum_of_exponentials(const T* row, accumulate_t<T> largest,
                                                   std::int64_t n) {
  accumulate_t<T> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += math::exp(load(row[i]) - largest);
  return sum;
}

}  // namespace

void softmax(CView x, View y) {
  const std::int64_t n = x.dim(-1);
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    parallel_each(x.rows(), row_grain(n), [&](std::int64_t r) {
      const T* row = x.as<T>() + r * n;
      T* out = y.as<T>() + r * n;
      const auto largest = row_max(row, n);
      const auto scale = 1 / sum_of_exponentials(row, largest, n);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        out[i] = convert<T>(math::exp(load(row[i]) - largest) * scale);
    });
  });
}

void softmax_grad(CView y, CView dy, View dx) {
  const std::int64_t n = y.dim(-1);
  visit_float(y.dtype, [&]<class T>(TypeTag<T>) {
    parallel_each(y.rows(), row_grain(n), [&](std::int64_t r) {
      const T* p = y.as<T>() + r * n;
      const T* dp = dy.as<T>() + r * n;
      T* out = dx.as<T>() + r * n;
      accumulate_t<T> inner = 0;
#pragma omp simd reduction(+ : inner)
      for (std::int64_t i = 0; i < n; ++i) inner += load(p[i]) * load(dp[i]);
      for (std::int64_t i = 0; i < n; ++i) out[i] = convert<T>(load(p[i]) * (load(dp[i]) - inner));
    });
  });
}

void argmax_rows(CView x, View y) {
  const std::int64_t n = x.dim(-1);
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    parallel_each(x.rows(), row_grain(n), [&](std::int64_t r) {
      const T* row = x.as<T>() + r * n;
      const auto largest = row_max(row, n);
      std::int64_t place = 0;
      while (place < n - 1 && !(load(row[place]) >= largest)) ++place;
      y.as<std::int64_t>()[r] = place;
    });
  });
}

void sample_rows(CView x, CView uniform, View y) {
  constexpr std::int64_t tile = 256;
  const std::int64_t n = x.dim(-1);
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    parallel_each(x.rows(), row_grain(n), [&](std::int64_t r) {
      const T* row = x.as<T>() + r * n;
      const A largest = row_max(row, n);
      A rest = static_cast<A>(uniform.as<double>()[r]) * sum_of_exponentials(row, largest, n);
      std::int64_t begin = 0;
      for (; begin + tile < n; begin += tile) {
        const A sum = sum_of_exponentials(row + begin, largest, tile);
        if (rest < sum) break;
        rest -= sum;
      }
      const std::int64_t last = std::min(begin + tile, n) - 1;
      while (begin < last && (rest -= math::exp(load(row[begin]) - largest)) >= 0) ++begin;
      y.as<std::int64_t>()[r] = begin;
    });
  });
}

void cross_entropy(CView logits, CView labels, double z_loss, View loss, View log_sum_exp,
                   View argmax) {
  if (argmax) argmax_rows(logits, argmax);
  const std::int64_t n = logits.dim(-1);
  const auto* label = labels.as<std::int64_t>();
  visit_float(logits.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    parallel_each(logits.rows(), row_grain(n), [&](std::int64_t r) {
      const T* row = logits.as<T>() + r * n;
      const A largest = row_max(row, n);
      const double total = largest + std::log(double(sum_of_exponentials(row, largest, n)));
      log_sum_exp.as<double>()[r] = total;
      loss.as<A>()[r] = label[r] < 0
                            ? A(0)
                            : static_cast<A>(total - load(row[label[r]]) + z_loss * total * total);
    });
  });
}

void cross_entropy_grad(CView logits, CView labels, double z_loss, CView log_sum_exp, CView dloss,
                        View dlogits) {
  const std::int64_t n = logits.dim(-1);
  const auto* label = labels.as<std::int64_t>();
  const auto compute = [&](auto tag, auto result) {
    using T = typename decltype(tag)::type;
    using R = typename decltype(result)::type;
    using A = accumulate_t<T>;
    parallel_each(logits.rows(), row_grain(n), [&](std::int64_t r) {
      const T* row = logits.as<T>() + r * n;
      R* out = dlogits.as<R>() + r * n;
      if (label[r] < 0) {  // NaN among its logits does not matter
        for (std::int64_t i = 0; i < n; ++i) out[i] = convert<R>(A(0));
        return;
      }
      const double total = log_sum_exp.as<double>()[r];
      const A high = static_cast<A>(total), low = static_cast<A>(total - high);
      const A scale = dloss.as<A>()[r];
      const A weight = static_cast<A>(1 + 2 * z_loss * total);
      const A chosen = weight * math::exp(load(row[label[r]]) - high - low);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        out[i] = convert<R>(scale * weight * math::exp(load(row[i]) - high - low));
      out[label[r]] = convert<R>(scale * (chosen - 1));
    });
  };
  visit_float(logits.dtype, [&](auto tag) {
    if (dlogits.dtype == logits.dtype) return compute(tag, tag);
    visit_float(dlogits.dtype, [&](auto result) { compute(tag, result); });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
