// Sums over rows for each column, on all threads. They do not depend on the number of threads.
#pragma once

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom {
namespace {

/// The most that one sum of the accumulate type adds up: a longer one outgrows its addends.
constexpr std::int64_t addends = 1024;

/// Divides `rows` into 32 chunks, fewer of few rows and more of very many, each with its own sums
/// of `columns` values. total() adds them in order.
template <class A>
class ColumnSums {
 public:
  NYSTROM_INLINE ColumnSums(std::int64_t rows, std::int64_t columns)
      : rows_(rows),
        columns_(columns),
        chunks_(rows < 32 * 16        ? (rows + 15) / 16
                : rows < 32 * addends ? 32
                                      : (rows + addends - 1) / addends),
        partial_((chunks_ + 1) * columns) {}

  /// Calls body(row, sums of the row's chunk) for every row.
  template <class Body>
  NYSTROM_INLINE void run(const Body& body) const {
    parallel_each(chunks_, 1, [&](std::int64_t c) {
      A* sums = partial_.get() + c * columns_;
      for (std::int64_t i = 0; i < columns_; ++i) sums[i] = 0;
      for (std::int64_t r = rows_ * c / chunks_; r < rows_ * (c + 1) / chunks_; ++r) body(r, sums);
    });
  }

  NYSTROM_INLINE A total(std::int64_t column) const {
    double sum = 0;
    for (std::int64_t c = 0; c < chunks_; ++c)
      sum += static_cast<double>(partial_[c * columns_ + column]);
    return static_cast<A>(sum);
  }

 private:
  std::int64_t rows_, columns_, chunks_;
  Scratch<A> partial_;
};

}  // namespace
}  // namespace nystrom

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

/// sums [n] = x [rows, n] summed over the rows.
NYSTROM_INLINE void sum_over_rows(CView x, View sums) {
  CView block = x;
  block.rank = 3;
  block.shape[0] = 1;
  block.shape[1] = x.rows();
  block.shape[2] = x.dim(-1);
  sum_middle(block, sums, false);
}

}  // namespace
}  // namespace nystrom::kernels::NYSTROM_LEVEL
