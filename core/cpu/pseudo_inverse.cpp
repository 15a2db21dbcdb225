// The iterative pseudo-inverse of the landmark matrix, forward and backward. Matrices are processed
// one by one, in cache.
#include "core/cpu/level.h"

#include "core/cpu/parallel.h"
#include "core/cpu/tile_gemm.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

/// The column with the largest sum.
template <class A>
struct ColumnSum {
  A value;
  std::int64_t matrix, column;
};

template <class A>
ColumnSum<A> largest_column_sum(const A* a, std::int64_t matrix, std::int64_t m) {
  ColumnSum<A> best{0, matrix, 0};
  for (std::int64_t j = 0; j < m; ++j) {
    A sum = 0;
    for (std::int64_t i = 0; i < m; ++i) sum += a[i * m + j];
    if (j == 0 || sum > best.value) best = {sum, matrix, j};
  }
  return best;
}

template <class A>
ColumnSum<A> largest_of_batch(const A* a, std::int64_t batch, std::int64_t m) {
  ColumnSum<A> best = largest_column_sum(a, 0, m);
  for (std::int64_t b = 1; b < batch; ++b) {
    const auto candidate = largest_column_sum(a + b * m * m, b, m);
    if (candidate.value > best.value) best = candidate;
  }
  return best;
}

/// Products of m × m matrices, row-major.
template <class A>
struct Square {
  std::int64_t m;
  // c = alpha · x y [+ c]
  void product(A alpha, const A* x, const A* y, A* c, bool accumulate = false) const {
    tile_gemm<A>(m, m, m, alpha, {x, m, 1}, y, m, c, m, accumulate);
  }
  // c = x y, for a product that is symmetric: the blocks below the diagonal are mirrored
  void symmetric_product(const A* x, const A* y, A* c) const {
    constexpr std::int64_t block = 16;
    for (std::int64_t i = 0; i < m; i += block) {
      const std::int64_t rows = m - i < block ? m - i : block, diagonal = i * m + i;
      tile_gemm<A>(rows, m - i, m, A(1), {x + i * m, m, 1}, y + i, m, c + diagonal, m, false);
      transpose_block(c + diagonal + rows, rows, m - i - rows, m, c + diagonal + rows * m, m);
    }
  }
  // x ← x + xᵀ; `xt` is working memory
  void add_transposed(A* x, A* xt) const {
    transpose_block(x, m, m, m, xt, m);
    for (std::int64_t i = 0; i < m * m; ++i) x[i] += xt[i];
  }
  // c = alpha · xᵀ y [+ c]
  void product_tn(A alpha, const A* x, const A* y, A* c, bool accumulate = false) const {
    tile_gemm<A>(m, m, m, alpha, {x, 1, m}, y, m, c, m, accumulate);
  }
  // c = alpha · x yᵀ [+ c]; `yt` is working memory
  void product_nt(A alpha, const A* x, const A* y, A* yt, A* c, bool accumulate = false) const {
    transpose_block(y, m, m, m, yt, m);
    product(alpha, x, yt, c, accumulate);
  }
  // y = factor · I − x
  void identity_minus(A factor, const A* x, A* y) const {
    for (std::int64_t i = 0; i < m * m; ++i) y[i] = -x[i];
    for (std::int64_t i = 0; i < m; ++i) y[i * m + i] += factor;
  }
};

/// M = A Z and T = 13 I − M (15 I − M (7 I − M)), the factor of Z⁺ = Z T / 4. Both are symmetric:
/// Z0 = Aᵀ / c, so every M is a polynomial in A Aᵀ.
template <class A>
struct Factors {
  Scratch<A> m, t, product;
  explicit Factors(std::int64_t size) : m(size * size), t(size * size), product(size * size) {}

  void compute(const Square<A>& square, const A* a, const A* z) const {
    square.symmetric_product(a, z, m.get());
    square.identity_minus(7, m.get(), t.get());
    square.symmetric_product(m.get(), t.get(), product.get());
    square.identity_minus(15, product.get(), t.get());
    square.symmetric_product(m.get(), t.get(), product.get());
    square.identity_minus(13, product.get(), t.get());
  }
};

template <class A>
struct GradScratch {
  Factors<A> factors;
  Scratch<A> dz, next_dz, dt, sm, dm, transposed;
  explicit GradScratch(std::int64_t m)
      : factors(m), dz(m * m), next_dz(m * m), dt(m * m), sm(m * m), dm(m * m), transposed(m * m) {}
};

/// One iteration of the backward pass. s.dz holds dZ⁺ and receives dZ; dA is accumulated.
///
/// M is symmetric for every A, so its changes are, and an antisymmetric part of dM or dT has no
/// effect. With S = (dT + dTᵀ) / 2 and T = 13 I − 15 M + 7 M² − M³:
/// dM = −15 S + 7 (S M + M S) − (S M² + M S M + M² S) = −15 S + N + Nᵀ,
/// where N = 7 S M − (S M + M S / 2) M.
template <class A>
void step_backwards(const Square<A>& square, const A* a, const A* z, const GradScratch<A>& s,
                    A* da) {
  const std::int64_t size = square.m * square.m;
  const auto& f = s.factors;
  A* const ds = s.dt.get();
  A* const sm = s.sm.get();
  A* const dm = s.dm.get();
  A* const transposed = s.transposed.get();
  f.compute(square, a, z);
  square.product_tn(A(0.125), z, s.dz.get(), ds);  // dT / 2 = Zᵀ dZ⁺ / 8
  square.add_transposed(ds, transposed);           // S
  square.product(1, ds, f.m.get(), sm);
  transpose_block(sm, square.m, square.m, square.m, transposed, square.m);
  for (std::int64_t i = 0; i < size; ++i) transposed[i] = sm[i] + A(0.5) * transposed[i];
  square.product(-1, transposed, f.m.get(), dm);
  for (std::int64_t i = 0; i < size; ++i) dm[i] += 7 * sm[i];  // N
  square.add_transposed(dm, transposed);
  for (std::int64_t i = 0; i < size; ++i) dm[i] -= 15 * ds[i];
  square.product_nt(1, dm, z, transposed, da, true);                // dA += dM Zᵀ
  square.product(A(0.25), s.dz.get(), f.t.get(), s.next_dz.get());  // dZ = dZ⁺ T / 4
  square.product_tn(1, a, dm, s.next_dz.get(), true);               // dZ += Aᵀ dM
  for (std::int64_t i = 0; i < size; ++i) s.dz[i] = s.next_dz[i];
}

/// ⟨dZ0, Aᵀ⟩ and dA += dZ0ᵀ / c.
template <class A>
A start_backwards(const A* a, const A* dz, A c, std::int64_t m, A* da) {
  A inner = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < m; ++j) {
      inner += dz[i * m + j] * a[j * m + i];
      da[j * m + i] += dz[i * m + j] / c;
    }
  }
  return inner;
}

template <class A>
void add_to_column(A* a, std::int64_t m, std::int64_t column, A value) {
  for (std::int64_t i = 0; i < m; ++i) a[i * m + column] += value;
}

}  // namespace

void pseudo_inverse_iterative(CView a, PinvScale scale, View z) {
  const std::int64_t batch = a.shape[0], m = a.shape[1], iterations = z.shape[0] - 1, size = m * m;
  visit_accumulate(a.dtype, [&]<class A>(TypeTag<A>) {
    const A* pa = a.as<A>();
    const bool whole = scale == PinvScale::whole_batch;
    const A whole_c = whole && batch > 0 ? largest_of_batch(pa, batch, m).value : A(1);
    parallel_ranges(batch, 1, [&](std::int64_t begin, std::int64_t end) {
      const Square<A> square{m};
      const Factors<A> factors(m);
      for (std::int64_t b = begin; b < end; ++b) {
        const A* ab = pa + b * size;
        const A c = whole ? whole_c : largest_column_sum(ab, b, m).value;
        A* current = z.as<A>() + b * size;
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < m; ++j) current[i * m + j] = ab[j * m + i] / c;
        for (std::int64_t k = 0; k < iterations; ++k) {
          factors.compute(square, ab, current);
          square.product(A(0.25), current, factors.t.get(), current + batch * size);
          current += batch * size;
        }
      }
    });
  });
}

void pseudo_inverse_iterative_grad(CView a, PinvScale scale, CView z, CView dz, View da) {
  const std::int64_t batch = a.shape[0], m = a.shape[1], iterations = z.shape[0] - 1, size = m * m;
  visit_accumulate(a.dtype, [&]<class A>(TypeTag<A>) {
    const bool whole = scale == PinvScale::whole_batch;
    const auto best =
        whole && batch > 0 ? largest_of_batch(a.as<A>(), batch, m) : ColumnSum<A>{1, 0, 0};
    const Scratch<A> inner(batch);
    parallel_ranges(batch, 1, [&](std::int64_t begin, std::int64_t end) {
      const Square<A> square{m};
      const GradScratch<A> scratch(m);
      for (std::int64_t b = begin; b < end; ++b) {
        const A* ab = a.as<A>() + b * size;
        A* dab = da.as<A>() + b * size;
        for (std::int64_t i = 0; i < size; ++i) {
          dab[i] = 0;
          scratch.dz[i] = dz.as<A>()[b * size + i];
        }
        for (std::int64_t k = iterations - 1; k >= 0; --k)
          step_backwards(square, ab, z.as<A>() + (k * batch + b) * size, scratch, dab);
        const auto own = whole ? best : largest_column_sum(ab, b, m);
        inner[b] = start_backwards(ab, scratch.dz.get(), own.value, m, dab);
        if (!whole) add_to_column(dab, m, own.column, -inner[b] / (own.value * own.value));
      }
    });
    if (!whole || batch == 0) return;
    A total = 0;
    for (std::int64_t b = 0; b < batch; ++b) total += inner[b];
    add_to_column(da.as<A>() + best.matrix * size, m, best.column,
                  -total / (best.value * best.value));
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
