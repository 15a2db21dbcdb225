// Properties of the pseudo-inverses that Nyström attention relies on.
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

Var transposed(const Var& x) { return transpose(x, -1, -2); }

/// The largest singular value of a matrix, by power iteration.
double spectral_norm(const Tensor& matrix) {
  const Var a(matrix.cast(DType::f64).contiguous());
  Tensor x = random_normal({a.dim(1), 1}, 77);
  double norm = 0;
  for (int i = 0; i < 300; ++i) {
    x = matmul(transposed(a), matmul(a, Var(x))).value();
    norm = std::sqrt(sum(square(Var(x))).value().item());
    if (norm == 0) return 0;
    x = (Var(x) / norm).value();
  }
  return std::sqrt(norm);
}

/// Softmax attention of l tokens with l landmarks. If A is invertible, F · A⁺ · B = F, so F V is
/// exact attention.
TEST(PseudoInverse, AsManyLandmarksAsTokensEqualsSoftmaxAttention) {
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f64, 1e-10), std::pair(DType::f32, 1e-3)}) {
    for (const std::int64_t length : {1, 2, 5, 8, 16, 32}) {
      SCOPED_TRACE(name_of(dtype) + std::string(" ") + std::to_string(length));
      const Shape shape{length, 24};
      const Var q = random_normal(shape, 10 + static_cast<std::uint64_t>(length), 1.2),
                v = random_normal(shape, 12).cast(dtype);
      /// Tokens attend mainly to themselves, so A is well conditioned.
      const Var k = q + random_normal(shape, 11, 0.3);
      const Var scores = softmax(matmul(q, transposed(k)) / std::sqrt(24.0));
      const double condition =
          spectral_norm(scores.value()) * spectral_norm(pseudo_inverse_exact(scores).value());
      ASSERT_LE(condition, 1e4);
      const Var a = cast(scores, dtype);
      const Tensor got = matmul(a, matmul(pseudo_inverse_exact(a), matmul(a, v))).value();
      EXPECT_LE(relative_difference(got, matmul(a, v).value()), tolerance)
          << "condition " << condition;
    }
  }
}

/// The iteration converges from its start: I − A Z0 contracts for both scalings.
TEST(PseudoInverse, FirstIterateContracts) {
  for (const std::int64_t m : {1, 2, 3, 8, 33, 64}) {
    for (const double sharpness : {0.1, 1.0, 5.0}) {
      for (const auto scale : {PinvScale::per_matrix, PinvScale::whole_batch}) {
        SCOPED_TRACE(std::to_string(m) + " " + std::to_string(sharpness));
        const Var a =
            softmax(Var(random_normal({3, m, m}, 20 + static_cast<std::uint64_t>(m), sharpness)));
        const Tensor products = matmul(a, pseudo_inverse_iterative(a, 0, scale)).value();
        for (std::int64_t i = 0; i < 3; ++i) {
          Tensor residual =
              (-Var(products.slice(0, i, i + 1).contiguous().reshape({m, m}))).value().clone();
          for (std::int64_t j = 0; j < m; ++j) residual.data<double>()[j * m + j] += 1;
          EXPECT_LT(spectral_norm(residual), 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nystrom::testing
