// The iterative pseudo-inverse on tensor cores. A block keeps one matrix and all its working data
// in shared memory. Operands are split into two TF32 numbers each, and three of their products are
// added ("3×TF32"), which is as exact as f32. TF32 or bf16 alone would lose the gradient, because
// the matrix has almost rank one near initialisation.
#include <cmath>

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/products/pseudo_inverse.cuh"
#include "core/cuda/products/square_products.cuh"
#include "core/cuda/shared.cuh"

namespace nystrom::cuda {
namespace {

/// Whether the matrix and an iterate fit into shared memory beside the working data. Those of 128
/// landmarks are read from where they are.
template <int M>
constexpr bool holds_operands = M < 128;

/// `matrix` [M, M], copied to `target` if it is to be held. The caller waits at a barrier.
template <int M>
NYSTROM_DEVICE Matrix held(const float* matrix, const Buffer& target) {
  if constexpr (holds_operands<M>) {
    for (int i = static_cast<int>(threadIdx.x); i < M * M; i += Layout<M>::threads)
      target.at(i / M, i % M) = matrix[i];
    return target;
  } else {
    return {matrix, M, 1};
  }
}

/// The divisor of the first iterate, and the column that it came from: the batch's if there are
/// sums, else the matrix's own. Its barrier also ends what came before.
template <int M>
NYSTROM_DEVICE ColumnSum<float> divisor_of(const Matrix& a, const ColumnSum<float>* sums) {
  __shared__ ColumnSum<float> own;
  __syncthreads();
  if (sums) return *sums;
  if (warp_index() == 0) {
    float best = -INFINITY;
    int column = M;
    for (int j = lane_index(); j < M; j += warp_size) {
      float sum = 0;
      for (int i = 0; i < M; ++i) sum += a.at(i, j);
      if (sum > best) {
        best = sum;
        column = j;
      }
    }
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(whole_warp, best, distance);
      const int place = __shfl_xor_sync(whole_warp, column, distance);
      if (other > best || (other == best && place < column)) {
        best = other;
        column = place;
      }
    }
    // Comparisons with NaN are false: such a matrix has no largest column, and its inverse is NaN.
    if (lane_index() == 0) own = {column == M ? NAN : best, 0, column == M ? 0 : column};
  }
  __syncthreads();
  return own;
}

/// Writes f(row, column, number) at both places of each number on or above the diagonal of a
/// symmetric matrix. What its two halves lost to rounding would grow from iteration to iteration.
template <int M, class F>
NYSTROM_DEVICE void store_symmetric(BlockProduct<M>& p, const Buffer& target, const F& f) {
  p.each([&](int i, int j, float value) {
    if (i <= j) target.at(i, j) = target.at(j, i) = f(i, j, value);
  });
}

/// M = A Z and T = 13 I − M (15 I − M (7 I − M)), the factor of Z⁺ = Z T / 4. Both are symmetric:
/// Z0 = Aᵀ / c, so every M is a polynomial in A Aᵀ. Right operands that are symmetric are read
/// transposed, which has no bank conflicts. Ends with a barrier.
template <int M>
NYSTROM_DEVICE void factors(const Matrix& a, const Matrix& z, const Buffer& am, const Buffer& t) {
  const Matrix symmetric = Matrix(am).transposed();
  BlockProduct<M> p = product_of<M>(a, z);
  store_symmetric(p, am, [](int, int, float value) { return value; });
  __syncthreads();
  p = product_of<M>(am, symmetric);
  store_symmetric(p, t, [&](int i, int j, float value) {
    return (i == j ? 15.0f : 0.0f) - 7 * am.at(i, j) + value;
  });
  __syncthreads();
  p = product_of<M>(am, Matrix(t).transposed());
  __syncthreads();
  store_symmetric(p, t, [](int i, int j, float value) { return (i == j ? 13.0f : 0.0f) - value; });
  __syncthreads();
}

template <int M>
constexpr std::size_t forward_bytes = sizeof(float) * (holds_operands<M> ? 4 : 3) * Layout<M>::size;

/// Block b computes all iterates of matrix b.
template <int M>
__global__ void __launch_bounds__(Layout<M>::threads)
    fused_iterate_kernel(const float* a, const ColumnSum<float>* sums, std::int64_t iterations,
                         float* z) {
  using L = Layout<M>;
  const std::int64_t b = blockIdx.x, batch = gridDim.x;
  auto* shared = dynamic_shared<float>();
  const auto in_shared = [&](int i) { return Buffer{shared + i * L::size, L::stride}; };
  const Buffer zs = in_shared(0), am = in_shared(1), t = in_shared(2);
  const Matrix matrix = held<M>(a + b * M * M, in_shared(3));
  z += b * M * M;
  const float c = divisor_of<M>(matrix, sums).value;
  for (int i = static_cast<int>(threadIdx.x); i < M * M; i += L::threads)
    z[i] = zs.at(i / M, i % M) = matrix.at(i % M, i / M) / c;
  __syncthreads();
  for (std::int64_t k = 0; k < iterations; ++k) {
    factors<M>(matrix, zs, am, t);
    BlockProduct<M> p = product_of<M>(zs, Matrix(t).transposed());
    z += batch * M * M;
    __syncthreads();
    p.multiply(0.25f);
    p.store(zs);
    p.store(z, M);
    __syncthreads();
  }
}

template <int M>
constexpr std::size_t backward_bytes = sizeof(float) *
                                       (holds_operands<M> ? 6 : 3) * Layout<M>::size;

/// The block's buffers in the backward pass. `t` is used again once T is.
struct GradBuffers {
  Buffer dz, am, t, s;
};

/// x ← x + xᵀ and the result's part in p, which holds x before.
template <int M>
NYSTROM_DEVICE void add_transposed(BlockProduct<M>& p, const Buffer& x) {
  p.store(x);
  __syncthreads();
  p.each([&](int i, int j, float& value) { value += x.at(j, i); });
  __syncthreads();
  p.store(x);
}

/// One iteration of the backward pass. dz holds dZ⁺ and receives dZ; grad += dA. Ends with a
/// barrier.
///
/// M is symmetric for every A, so its changes are, and an antisymmetric part of dM or dT has no
/// effect. With S = (dT + dTᵀ) / 2 and T = 13 I − 15 M + 7 M² − M³:
/// dM = −15 S + 7 (S M + M S) − (S M² + M S M + M² S) = −15 S + N + Nᵀ,
/// where N = 7 S M − (S M + M S / 2) M.
template <int M>
NYSTROM_DEVICE void step_backwards(const Matrix& a, const Matrix& z, const GradBuffers& at,
                                   BlockProduct<M>& grad) {
  const Buffer dz = at.dz, am = at.am, t = at.t, s = at.s;
  const Matrix symmetric = Matrix(am).transposed();
  factors<M>(a, z, am, t);
  BlockProduct<M> p = product_of<M>(z.transposed(), dz);  // 4 dT = Zᵀ dZ⁺
  p.multiply(0.125f);
  add_transposed(p, s);
  p = product_of<M>(dz, Matrix(t).transposed());
  __syncthreads();
  p.multiply(0.25f);
  p.store(dz);  // dZ = dZ⁺ T / 4
  BlockProduct<M> sm = product_of<M>(s, symmetric);
  const Buffer& x = t;
  sm.store(x);
  __syncthreads();
  p = sm;
  p.each([&](int i, int j, float& value) { value += 0.5f * x.at(j, i); });
  __syncthreads();
  p.store(x);
  __syncthreads();
  sm.multiply(-7);
  sm.add(x, symmetric);
  sm.multiply(-1);  // N
  __syncthreads();
  sm.store(x);
  __syncthreads();
  p = sm;
  p.each([&](int i, int j, float& value) { value += x.at(j, i) - 15 * s.at(i, j); });
  __syncthreads();
  p.store(x);  // dM
  __syncthreads();
  grad.add(x, z.transposed());  // dA += dM Zᵀ
  p = product_of<M>(a.transposed(), Matrix(x).transposed());
  p.each([&](int i, int j, float value) { dz.at(i, j) += value; });  // dZ += Aᵀ dM
  __syncthreads();
}

/// Block b computes da of matrix b, and ⟨dZ0, Aᵀ⟩. For 128 landmarks dZ shares the memory of dA.
template <int M>
__global__ void __launch_bounds__(Layout<M>::threads)
    fused_iterate_grad_kernel(const float* a, const ColumnSum<float>* sums, std::int64_t iterations,
                              const float* z, const float* last_dz, float* da, float* inner) {
  using L = Layout<M>;
  const std::int64_t b = blockIdx.x, batch = gridDim.x, offset = b * M * M;
  auto* shared = dynamic_shared<float>();
  const auto in_shared = [&](int i) { return Buffer{shared + i * L::size, L::stride}; };
  da += offset;
  GradBuffers buffers{in_shared(3), in_shared(0), in_shared(1), in_shared(2)};
  if constexpr (!holds_operands<M>) buffers.dz = Buffer{da, M};
  const Matrix matrix = held<M>(a + offset, in_shared(4));
  for (int i = static_cast<int>(threadIdx.x); i < M * M; i += L::threads)
    buffers.dz.at(i / M, i % M) = last_dz[offset + i];
  BlockProduct<M> grad{};
  for (std::int64_t k = iterations - 1; k >= 0; --k) {
    const Matrix iterate = held<M>(z + k * batch * M * M + offset, in_shared(5));
    __syncthreads();
    step_backwards<M>(matrix, iterate, buffers, grad);
  }
  const ColumnSum<float> divisor = divisor_of<M>(matrix, sums);
  const float c = divisor.value;
  float sum = 0;
  grad.each([&](int i, int j, float& value) {
    const float mirrored = buffers.dz.at(j, i);
    sum += mirrored * matrix.at(i, j);
    value += mirrored / c;
  });
  sum = block_sum(sum);  // also a barrier: da may share the memory of dz
  if (threadIdx.x == 0) inner[b] = sum;
  const std::int64_t column = sums ? M : divisor.column;
  grad.each([&](int i, int j, float value) {
    da[i * M + j] = value - (j == column ? sum / (c * c) : 0.0f);
  });
}

template <int M>
void run_forward(const CView& a, const ColumnSum<float>* sums, const View& z) {
  launch(fused_iterate_kernel<M>, dim3(static_cast<unsigned>(a.shape[0])), dim3(Layout<M>::threads),
         forward_bytes<M>, a.as<float>(), sums, z.shape[0] - 1, z.as<float>());
}

template <int M>
void run_backward(const CView& a, const ColumnSum<float>* sums, const CView& z, const CView& dz,
                  const View& da, float* inner) {
  launch(fused_iterate_grad_kernel<M>, dim3(static_cast<unsigned>(a.shape[0])),
         dim3(Layout<M>::threads), backward_bytes<M>, a.as<float>(), sums, z.shape[0] - 1,
         z.as<float>(), dz.as<float>(), da.as<float>(), inner);
}

}  // namespace

bool fuses_pseudo_inverse(const CView& a) {
  if (!tensor_cores_take(DType::f32, a.device.index)) return false;
  const std::int64_t m = a.shape[1];
  const std::size_t most = shared_memory_of_a_block();
  return m == 32 || (m == 64 && backward_bytes<64> <= most) ||
         (m == 128 && backward_bytes<128> <= most);
}

void pseudo_inverse_fused(const CView& a, const ColumnSum<float>* sums, const View& z) {
  if (a.shape[1] == 32) return run_forward<32>(a, sums, z);
  if (a.shape[1] == 64) return run_forward<64>(a, sums, z);
  run_forward<128>(a, sums, z);
}

void pseudo_inverse_fused_grad(const CView& a, const ColumnSum<float>* sums, const CView& z,
                               const CView& dz, const View& da, float* inner) {
  if (a.shape[1] == 32) return run_backward<32>(a, sums, z, dz, da, inner);
  if (a.shape[1] == 64) return run_backward<64>(a, sums, z, dz, da, inner);
  run_backward<128>(a, sums, z, dz, da, inner);
}

}  // namespace nystrom::cuda
