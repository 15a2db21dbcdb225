// What needs Eigen's singular value decompositions, whose templates take long to compile.
#include "core/singular_values.h"

#include <Eigen/SVD>
#include <limits>

#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom::kernels::cpu {
namespace {

/// Always computed in f64: only one instance of Eigen's templates is compiled, and A is the only
/// rounded value.
template <class A>
void invert(const A* a, std::int64_t m, A* z) {
  using Stored = Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd matrix = Eigen::Map<const Stored>(a, m, m).template cast<double>();
  if (!matrix.allFinite()) {
    Eigen::Map<Stored>(z, m, m).setConstant(std::numeric_limits<A>::quiet_NaN());
    return;
  }
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(matrix, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const auto& sigma = svd.singularValues();
  const double cutoff =
      static_cast<double>(m) * static_cast<double>(Eigen::NumTraits<A>::epsilon()) * sigma(0);
  Eigen::VectorXd inverse = sigma;
  for (std::int64_t i = 0; i < m; ++i) inverse(i) = sigma(i) > cutoff ? 1 / sigma(i) : 0;
  const Eigen::MatrixXd product = svd.matrixV() * inverse.asDiagonal() * svd.matrixU().transpose();
  Eigen::Map<Stored>(z, m, m) = product.cast<A>();
}

}  // namespace

void pseudo_inverse_svd(CView a, View z) {
  const std::int64_t m = a.shape[1];
  if (m == 0) return;
  visit_accumulate(a.dtype, [&]<class A>(TypeTag<A>) {
    parallel_ranges(a.shape[0], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        invert(a.as<A>() + b * m * m, m, z.as<A>() + b * m * m);
    });
  });
}

}  // namespace nystrom::kernels::cpu

namespace nystrom {

std::vector<double> singular_values(const double* matrix, std::int64_t n) {
  // Columns as rows: the transposed matrix has the same values.
  const Eigen::VectorXd values =
      Eigen::BDCSVD<Eigen::MatrixXd>(Eigen::Map<const Eigen::MatrixXd>(matrix, n, n))
          .singularValues();
  return {values.begin(), values.end()};
}

}  // namespace nystrom
