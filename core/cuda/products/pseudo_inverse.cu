// The iterative pseudo-inverse of the landmark matrix, forward and backward, with one block a
// matrix. Products use tiles in shared memory, in the accumulate type. pseudo_inverse_fused.cu is
// faster for common sizes, and is tested against this.
#include <cmath>

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/products/pseudo_inverse.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;
constexpr int tile = 64;   // rows and columns that the block computes at once: 4 × 4 a thread
constexpr int depth = 16;  // depth of a slab in shared memory

template <class A>
NYSTROM_DEVICE bool exceeds(const ColumnSum<A>& a, const ColumnSum<A>& b) {
  return a.value > b.value ||
         (a.value == b.value &&
          (a.matrix < b.matrix || (a.matrix == b.matrix && a.column < b.column)));
}

/// The first index of the largest of one value a thread. The result is valid on thread 0.
template <class A>
NYSTROM_DEVICE ColumnSum<A> block_largest(ColumnSum<A> mine) {
  __shared__ ColumnSum<A> all[block];
  all[threadIdx.x] = mine;
  for (int half = block / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half && exceeds(all[threadIdx.x + half], all[threadIdx.x]))
      all[threadIdx.x] = all[threadIdx.x + half];
  }
  __syncthreads();
  return all[0];
}

/// result[b]: the largest column sum of matrix b.
template <class A>
__global__ void column_sum_kernel(const A* a, std::int64_t m, ColumnSum<A>* result) {
  const A* matrix = a + blockIdx.x * m * m;
  ColumnSum<A> best{-static_cast<A>(INFINITY), static_cast<std::int64_t>(blockIdx.x), m};
  for (std::int64_t j = threadIdx.x; j < m; j += block) {
    A sum = 0;
    for (std::int64_t i = 0; i < m; ++i) sum += matrix[i * m + j];
    const ColumnSum<A> candidate{sum, static_cast<std::int64_t>(blockIdx.x), j};
    if (exceeds(candidate, best)) best = candidate;
  }
  best = block_largest(best);
  // Comparisons with NaN are false: such a matrix has no largest column, and its inverse is NaN. An
  // index is still needed.
  if (best.column == m) best = {static_cast<A>(NAN), static_cast<std::int64_t>(blockIdx.x), 0};
  if (threadIdx.x == 0) result[blockIdx.x] = best;
}

/// result[batch]: the largest of result[0 … batch − 1].
template <class A>
__global__ void batch_largest_kernel(ColumnSum<A>* result, std::int64_t batch) {
  ColumnSum<A> best = result[0];
  for (std::int64_t b = threadIdx.x; b < batch; b += block)
    if (exceeds(result[b], best)) best = result[b];
  best = block_largest(best);
  if (threadIdx.x == 0) result[batch] = best;
}

/// An m × m factor of a product: diagonal · I + sign · data, or its transpose.
template <class A>
struct Factor {
  const A* data;
  bool transposed = false;
  A diagonal = 0;
  NYSTROM_DEVICE A at(int i, int j, int m) const {
    if (i >= m || j >= m) return 0;
    const A value = transposed ? data[j * m + i] : data[i * m + j];
    return diagonal == A(0) ? value : (i == j ? diagonal : A(0)) - value;
  }
};

template <class A>
struct alignas(16) Tiles {
  A x[depth][tile + 4], y[depth][tile + 4];
};

/// One slab of x [tile, depth] and y [depth, tile]. Neighbouring threads read neighbours in memory,
/// for both layouts of a factor.
template <class A>
NYSTROM_DEVICE void load_slab(const Factor<A>& x, const Factor<A>& y, int row, int column, int k,
                              int m, Tiles<A>& s) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * depth; i += block) {
    const int along = x.transposed ? i % tile : i / depth,
              deep = x.transposed ? i / tile : i % depth;
    s.x[deep][along] = x.at(row + along, k + deep, m);
    const int across = y.transposed ? i / depth : i % tile,
              down = y.transposed ? i % depth : i / tile;
    s.y[down][across] = y.at(k + down, column + across, m);
  }
}

/// c = diagonal · I + alpha · x y [+ c], m × m, by the whole block. c must not be one of the
/// factors. Ends with a barrier.
template <class A>
NYSTROM_DEVICE void product(A alpha, Factor<A> x, Factor<A> y, A* c, std::int64_t size,
                            bool accumulate = false, A diagonal = 0) {
  __shared__ Tiles<A> s;
  const int m = static_cast<int>(size), first_row = static_cast<int>(threadIdx.x) / 16 * 4,
            first_column = static_cast<int>(threadIdx.x) % 16 * 4;
  for (int row = 0; row < m; row += tile) {
    for (int column = 0; column < m; column += tile) {
      A sum[4][4] = {};
      for (int k = 0; k < m; k += depth) {
        load_slab(x, y, row, column, k, m, s);
        __syncthreads();
        NYSTROM_UNROLL
        for (int d = 0; d < depth; ++d) {
          const auto xs = load_pack<4>(&s.x[d][first_row]),
                     ys = load_pack<4>(&s.y[d][first_column]);
          NYSTROM_UNROLL
          for (int i = 0; i < 4; ++i) {
            NYSTROM_UNROLL
            for (int j = 0; j < 4; ++j) sum[i][j] += xs.value[i] * ys.value[j];
          }
        }
        __syncthreads();
      }
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          const int r = row + first_row + i, q = column + first_column + j;
          if (r >= m || q >= m) continue;
          const A before = accumulate ? c[r * m + q] : A(0);
          c[r * m + q] = before + alpha * sum[i][j] + (r == q ? diagonal : A(0));
        }
      }
    }
  }
  __syncthreads();
}

/// M = A Z, W = 15 I − M (7 I − M), T = 13 I − M W: the factors of Z⁺ = Z T / 4.
template <class A>
NYSTROM_DEVICE void factors(const A* a, const A* z, std::int64_t m, A* am, A* w, A* t) {
  product<A>(1, {a}, {z}, am, m);
  product<A>(-1, {am}, {am, false, 7}, w, m, false, 15);
  product<A>(-1, {am}, {w}, t, m, false, 13);
}

/// Each block processes matrices blockIdx.x, + gridDim.x, …, with its own working memory [3, m, m].
template <class A>
__global__ void iterate_kernel(const A* a, const ColumnSum<A>* sums, bool whole, std::int64_t batch,
                               std::int64_t m, std::int64_t iterations, A* z, A* work) {
  const std::int64_t size = m * m;
  A* am = work + blockIdx.x * 3 * size;
  for (std::int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
    const A* matrix = a + b * size;
    const A c = sums[whole ? batch : b].value;
    A* current = z + b * size;
    for (std::int64_t i = threadIdx.x; i < size; i += block)
      current[i] = matrix[i % m * m + i / m] / c;
    __syncthreads();
    for (std::int64_t k = 0; k < iterations; ++k) {
      factors(matrix, current, m, am, am + size, am + 2 * size);
      product<A>(A(0.25), {current}, {am + 2 * size}, current + batch * size, m);
      current += batch * size;
    }
  }
}

constexpr std::int64_t grad_buffers = 8;

/// One iteration of the backward pass. dz holds dZ⁺, next receives dZ, and da is accumulated. work:
/// [6, m, m].
template <class A>
NYSTROM_DEVICE void step_backwards(const A* a, const A* z, const A* dz, std::int64_t m, A* work,
                                   A* next, A* da) {
  const std::int64_t size = m * m;
  A *am = work, *w = am + size, *t = w + size, *dt = t + size, *dm = dt + size, *dw = dm + size;
  factors(a, z, m, am, w, t);
  product<A>(A(0.25), {z, true}, {dz}, dt, m);       // dT = Zᵀ dZ⁺ / 4
  product<A>(-1, {dt}, {w, true}, dm, m);            // dM = −dT Wᵀ
  product<A>(-1, {am, true}, {dt}, dw, m);           // dW = −Mᵀ dT
  product<A>(-1, {dw}, {am, true, 7}, dm, m, true);  // dM += −dW (7 I − M)ᵀ
  product<A>(1, {am, true}, {dw}, dm, m, true);      // dM += Mᵀ dW
  product<A>(1, {dm}, {z, true}, da, m, true);       // dA += dM Zᵀ
  product<A>(A(0.25), {dz}, {t, true}, next, m);     // dZ = dZ⁺ Tᵀ / 4
  product<A>(1, {a, true}, {dm}, next, m, true);     // dZ += Aᵀ dM
}

/// Computes da and, for each matrix, ⟨dZ0, Aᵀ⟩.
template <class A>
__global__ void iterate_grad_kernel(const A* a, const ColumnSum<A>* sums, bool whole,
                                    std::int64_t batch, std::int64_t m, std::int64_t iterations,
                                    const A* z, const A* dz, A* da, A* inner, A* work) {
  const std::int64_t size = m * m;
  A* own = work + blockIdx.x * grad_buffers * size;
  for (std::int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
    const A* matrix = a + b * size;
    A *grad = da + b * size, *current = own + 6 * size, *next = own + 7 * size;
    for (std::int64_t i = threadIdx.x; i < size; i += block) {
      grad[i] = 0;
      current[i] = dz[b * size + i];
    }
    __syncthreads();
    for (std::int64_t k = iterations - 1; k >= 0; --k) {
      step_backwards(matrix, z + (k * batch + b) * size, current, m, own, next, grad);
      A* swapped = current;
      current = next;
      next = swapped;
    }
    const A c = sums[whole ? batch : b].value;
    A sum = 0;
    for (std::int64_t i = threadIdx.x; i < size; i += block) {
      const std::int64_t mirrored = i % m * m + i / m;
      sum += current[mirrored] * matrix[i];
      grad[i] += current[mirrored] / c;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) inner[b] = sum;
    __syncthreads();
    if (whole) continue;
    for (std::int64_t i = threadIdx.x; i < m; i += block)
      grad[i * m + sums[b].column] -= sum / (c * c);
    __syncthreads();
  }
}

/// The gradient through the common scale of the batch, for the column that the scale came from.
template <class A>
__global__ void whole_scale_grad_kernel(const A* inner, const ColumnSum<A>* sums,
                                        std::int64_t batch, std::int64_t m, A* da) {
  const ColumnSum<A> best = sums[batch];
  A total = 0;
  for (std::int64_t b = 0; b < batch; ++b) total += inner[b];
  for (std::int64_t i = threadIdx.x; i < m; i += blockDim.x)
    da[best.matrix * m * m + i * m + best.column] -= total / (best.value * best.value);
}

/// Enough blocks to fill the GPU; more would only need more working memory.
constexpr std::int64_t max_matrices = 132 * 4;

unsigned blocks_of(std::int64_t batch) {
  return static_cast<unsigned>(batch < max_matrices ? batch : max_matrices);
}

/// [batch + 1]: each matrix's largest column sum, then the batch's.
template <class A>
Workspace<ColumnSum<A>> column_sums(const CView& a, bool whole) {
  const std::int64_t batch = a.shape[0];
  Workspace<ColumnSum<A>> sums(a, batch + 1);
  launch(column_sum_kernel<A>, dim3(static_cast<unsigned>(batch)), dim3(block), 0, a.as<A>(),
         a.shape[1], sums.get());
  if (whole) launch(batch_largest_kernel<A>, dim3(1), dim3(block), 0, sums.get(), batch);
  return sums;
}

}  // namespace

void pseudo_inverse_iterative(CView a, PinvScale scale, View z) {
  const std::int64_t batch = a.shape[0], m = a.shape[1];
  if (batch * m == 0) return;
  const bool whole = scale == PinvScale::whole_batch;
  visit_accumulate(a.dtype, [&]<class A>(TypeTag<A>) {
    if constexpr (std::is_same_v<A, float>) {
      if (fuses_pseudo_inverse(a) && !whole) return pseudo_inverse_fused(a, nullptr, z);
    }
    const auto sums = column_sums<A>(a, whole);
    if constexpr (std::is_same_v<A, float>) {
      if (fuses_pseudo_inverse(a)) return pseudo_inverse_fused(a, sums.get() + batch, z);
    }
    const Workspace<A> work(z, blocks_of(batch) * 3 * m * m);
    launch(iterate_kernel<A>, dim3(blocks_of(batch)), dim3(block), 0, a.as<A>(), sums.get(), whole,
           batch, m, z.shape[0] - 1, z.as<A>(), work.get());
  });
}

void pseudo_inverse_iterative_grad(CView a, PinvScale scale, CView z, CView dz, View da) {
  const std::int64_t batch = a.shape[0], m = a.shape[1];
  if (batch * m == 0) return;
  const bool whole = scale == PinvScale::whole_batch;
  visit_accumulate(a.dtype, [&]<class A>(TypeTag<A>) {
    const Workspace<A> inner(da, batch);
    if constexpr (std::is_same_v<A, float>) {
      if (fuses_pseudo_inverse(a) && !whole)
        return pseudo_inverse_fused_grad(a, nullptr, z, dz, da, inner.get());
    }
    const auto sums = column_sums<A>(a, whole);
    bool fused = false;
    if constexpr (std::is_same_v<A, float>) {
      fused = fuses_pseudo_inverse(a);
      if (fused) pseudo_inverse_fused_grad(a, sums.get() + batch, z, dz, da, inner.get());
    }
    if (!fused) {
      const Workspace<A> work(da, blocks_of(batch) * grad_buffers * m * m);
      launch(iterate_grad_kernel<A>, dim3(blocks_of(batch)), dim3(block), 0, a.as<A>(), sums.get(),
             whole, batch, m, z.shape[0] - 1, z.as<A>(), dz.as<A>(), da.as<A>(), inner.get(),
             work.get());
    }
    if (whole)
      launch(whole_scale_grad_kernel<A>, dim3(1), dim3(block), 0, inner.get(), sums.get(), batch, m,
             da.as<A>());
  });
}

}  // namespace nystrom::kernels::cuda
