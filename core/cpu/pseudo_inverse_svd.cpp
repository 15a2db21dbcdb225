// The exact Moore–Penrose inverse, by Eigen's singular value decomposition.
#include <Eigen/SVD>

#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom::kernels::cpu {
namespace {

template <class A>
void invert(const A* a, std::int64_t m, A* z) {
  using Matrix = Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> matrix(a, m, m);
  const Eigen::JacobiSVD<Matrix> svd(matrix, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const auto& sigma = svd.singularValues();
  const A cutoff = static_cast<A>(m) * Eigen::NumTraits<A>::epsilon() * sigma(0);
  auto inverse = sigma;
  for (std::int64_t i = 0; i < m; ++i) inverse(i) = sigma(i) > cutoff ? 1 / sigma(i) : A(0);
  Eigen::Map<Matrix>(z, m, m) = svd.matrixV() * inverse.asDiagonal() * svd.matrixU().transpose();
}

}  // namespace

void pseudo_inverse_svd(CView a, View z) {
  const std::int64_t m = a.shape[1];
  if (m == 0) return;
  visit_accumulate(a.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    parallel_ranges(a.shape[0], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) invert(a.as<A>() + b * m * m, m, z.as<A>() + b * m * m);
    });
  });
}

}  // namespace nystrom::kernels::cpu
