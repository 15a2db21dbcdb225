// The iterative pseudo-inverse on tensor cores. A block keeps one matrix and all its working data
// in shared memory. Operands are split into two TF32 numbers each, and three of their products are
// added ("3×TF32"), which is as exact as f32. TF32 or bf16 alone would lose the gradient, because
// the matrix has almost rank one near initialisation.
#include <cmath>

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/pseudo_inverse.cuh"
#include "core/cuda/shared.cuh"

namespace nystrom::cuda {
namespace {

/// The division of an M × M product over the block: two warps side by side, the others below.
template <int M>
struct Layout {
  static constexpr int warps = M == 128 ? 16 : 4;
  static constexpr int threads = warps * warp_size;
  static constexpr int rows = M / (warps / 2), columns = M / 2;  // of a warp
  // The row stride of a matrix in shared memory, which avoids bank conflicts of left operands.
  static constexpr int stride = M + 4;
  static constexpr int size = M * stride;
};

/// A square matrix in any memory, or the transpose of one.
struct Matrix {
  const float* data;
  int row, column;  // strides
  NYSTROM_DEVICE float at(int i, int j) const { return data[i * row + j * column]; }
  NYSTROM_DEVICE Matrix transposed() const { return {data, column, row}; }
};

/// A matrix that is written row by row.
struct Buffer {
  float* data;
  int stride;
  NYSTROM_DEVICE float& at(int i, int j) const { return data[i * stride + j]; }
  NYSTROM_DEVICE operator Matrix() const { return {data, stride, 1}; }
};

/// c += x y for one fragment. Tensor cores truncate their sums. So three products are added to the
/// long sum at a time, which is rounded.
NYSTROM_DEVICE void add_split(float (&c)[4], const Tf32Parts (&x)[4], const Tf32Parts (&y)[2]) {
  const std::uint32_t high[4] = {x[0].high, x[1].high, x[2].high, x[3].high},
                      low[4] = {x[0].low, x[1].low, x[2].low, x[3].low};
  float sum[4] = {};
  mma_tf32(sum, low, y[0].high, y[1].high);
  mma_tf32(sum, high, y[0].low, y[1].low);
  mma_tf32(sum, high, y[0].high, y[1].high);
  NYSTROM_UNROLL
  for (int i = 0; i < 4; ++i) c[i] += sum[i];
}

/// A warp's part of an M × M sum of products, in registers.
template <int M>
struct Product {
  using L = Layout<M>;
  float part[L::rows / 16][L::columns / 8][4];

  NYSTROM_DEVICE void multiply(float factor) {
    NYSTROM_UNROLL
    for (int r = 0; r < L::rows / 16; ++r) {
      NYSTROM_UNROLL
      for (int c = 0; c < L::columns / 8; ++c) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i) part[r][c][i] *= factor;
      }
    }
  }

  /// Calls f(row, column, number) for each number of this thread.
  template <class F>
  NYSTROM_DEVICE void each(const F& f) {
    const int row = warp_index() / 2 * L::rows + lane_index() / 4,
              column = warp_index() % 2 * L::columns + lane_index() % 4 * 2;
    NYSTROM_UNROLL
    for (int r = 0; r < L::rows / 16; ++r) {
      NYSTROM_UNROLL
      for (int c = 0; c < L::columns / 8; ++c) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i)
          f(row + r * 16 + i / 2 * 8, column + c * 8 + i % 2, part[r][c][i]);
      }
    }
  }

  /// += x y
  NYSTROM_DEVICE void add(const Matrix& x, const Matrix& y) {
    const int g = lane_index() / 4, t = lane_index() % 4;
    const int row = warp_index() / 2 * L::rows + g, column = warp_index() % 2 * L::columns + g;
    for (int first = 0; first < M; first += 8) {
      const int k = first + t;
      Tf32Parts left[L::rows / 16][4];
      NYSTROM_UNROLL
      for (int r = 0; r < L::rows / 16; ++r) {
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i)
          left[r][i] = split_tf32(x.at(row + r * 16 + i % 2 * 8, k + i / 2 * 4));
      }
      NYSTROM_UNROLL
      for (int c = 0; c < L::columns / 8; ++c) {
        const Tf32Parts right[2] = {split_tf32(y.at(k, column + c * 8)),
                                    split_tf32(y.at(k + 4, column + c * 8))};
        NYSTROM_UNROLL
        for (int r = 0; r < L::rows / 16; ++r) add_split(part[r][c], left[r], right);
      }
    }
  }
};

/// The upper triangle of a symmetric M × M sum of products, in registers. Row blocks r and R − 1 −
/// r of 16 rows have as many fragments together for every r. Some warps share such a pair.
template <int M>
struct Triangle {
  using L = Layout<M>;
  static constexpr int row_blocks = M / 16, spans = M / 8;
  static constexpr int warps_of_pair = L::warps / (row_blocks / 2);
  static constexpr int fragments = (spans + 2 + warps_of_pair - 1) / warps_of_pair;
  float part[fragments][4];

  /// Whether fragment i lies in the pair's second row block. The second one is below the first.
  NYSTROM_DEVICE static bool is_second(int i) { return number(i) >= spans - 2 * pair(); }
  NYSTROM_DEVICE static bool exists(int i) { return number(i) < spans + 2; }
  NYSTROM_DEVICE static int row(bool second) {
    return 16 * (second ? row_blocks - 1 - pair() : pair());
  }
  NYSTROM_DEVICE static int column(int i) {
    // Row block r begins at fragment 2 r.
    return 8 * (is_second(i) ? number(i) - (spans - 2 * pair()) + 2 * (row_blocks - 1 - pair())
                             : number(i) + 2 * pair());
  }

  /// Calls f(row, column, number) for each number of this thread on or above the diagonal.
  template <class F>
  NYSTROM_DEVICE void each(const F& f) {
    NYSTROM_UNROLL
    for (int c = 0; c < fragments; ++c) {
      if (!exists(c)) continue;
      NYSTROM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int r = row(is_second(c)) + lane_index() / 4 + i / 2 * 8,
                  q = column(c) + lane_index() % 4 * 2 + i % 2;
        if (q >= r) f(r, q, part[c][i]);
      }
    }
  }

  /// += x y
  NYSTROM_DEVICE void add(const Matrix& x, const Matrix& y) {
    const int g = lane_index() / 4, t = lane_index() % 4;
    for (int first = 0; first < M; first += 8) {
      const int k = first + t;
      Tf32Parts left[2][4];
      NYSTROM_UNROLL
      for (int second = 0; second < 2; ++second) {
        if (second ? !is_second(fragments - 1) : is_second(0)) continue;
        NYSTROM_UNROLL
        for (int i = 0; i < 4; ++i)
          left[second][i] = split_tf32(x.at(row(second) + g + i % 2 * 8, k + i / 2 * 4));
      }
      NYSTROM_UNROLL
      for (int c = 0; c < fragments; ++c) {
        if (!exists(c)) continue;
        const Tf32Parts right[2] = {split_tf32(y.at(k, column(c) + g)),
                                    split_tf32(y.at(k + 4, column(c) + g))};
        if (is_second(c)) {
          add_split(part[c], left[1], right);
        } else {
          add_split(part[c], left[0], right);
        }
      }
    }
  }

 private:
  NYSTROM_DEVICE static int pair() { return warp_index() / warps_of_pair; }
  NYSTROM_DEVICE static int number(int i) { return warp_index() % warps_of_pair * fragments + i; }
};

/// x y, computed by the whole block.
template <int M>
NYSTROM_DEVICE Product<M> product_of(const Matrix& x, const Matrix& y) {
  Product<M> p{};
  p.add(x, y);
  return p;
}
/// x y, which is symmetric.
template <int M>
NYSTROM_DEVICE Triangle<M> symmetric_product_of(const Matrix& x, const Matrix& y) {
  Triangle<M> p{};
  p.add(x, y);
  return p;
}

/// Writes f(row, column, number) at both places of each number of a symmetric matrix.
template <int M, class F>
NYSTROM_DEVICE void store_symmetric(Triangle<M>& p, const Buffer& target, const F& f) {
  p.each([&](int i, int j, float value) {
    const float stored = f(i, j, value);
    target.at(i, j) = stored;
    if (i != j) target.at(j, i) = stored;
  });
}

/// M = A Z and T = 13 I − M (15 I − M (7 I − M)), the factor of Z⁺ = Z T / 4. Both are symmetric:
/// Z0 = Aᵀ / c, so every M is a polynomial in A Aᵀ. Right operands that are symmetric are read
/// transposed, which has no bank conflicts. Ends with a barrier.
template <int M>
NYSTROM_DEVICE void factors(const Matrix& a, const Matrix& z, const Buffer& am, const Buffer& t) {
  const Matrix symmetric = Matrix(am).transposed();
  Triangle<M> p = symmetric_product_of<M>(a, z);
  store_symmetric(p, am, [](int, int, float value) { return value; });
  __syncthreads();
  p = symmetric_product_of<M>(am, symmetric);
  store_symmetric(p, t, [&](int i, int j, float value) {
    return (i == j ? 15.0f : 0.0f) - 7 * am.at(i, j) + value;
  });
  __syncthreads();
  p = symmetric_product_of<M>(am, Matrix(t).transposed());
  __syncthreads();
  store_symmetric(p, t, [](int i, int j, float value) { return (i == j ? 13.0f : 0.0f) - value; });
  __syncthreads();
}

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
    Product<M> p = product_of<M>(zs, Matrix(t).transposed());
    z += batch * M * M;
    __syncthreads();
    p.each([&](int i, int j, float value) { z[i * M + j] = zs.at(i, j) = value / 4; });
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
NYSTROM_DEVICE void add_transposed(Product<M>& p, const Buffer& x) {
  p.each([&](int i, int j, float value) { x.at(i, j) = value; });
  __syncthreads();
  p.each([&](int i, int j, float& value) { value += x.at(j, i); });
  __syncthreads();
  p.each([&](int i, int j, float value) { x.at(i, j) = value; });
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
                                   Product<M>& grad) {
  const Buffer dz = at.dz, am = at.am, t = at.t, s = at.s;
  const Matrix symmetric = Matrix(am).transposed();
  factors<M>(a, z, am, t);
  Product<M> p = product_of<M>(z.transposed(), dz);  // 4 dT = Zᵀ dZ⁺
  p.multiply(0.125f);
  add_transposed(p, s);
  p = product_of<M>(dz, Matrix(t).transposed());
  __syncthreads();
  p.each([&](int i, int j, float value) { dz.at(i, j) = value / 4; });  // dZ = dZ⁺ T / 4
  Product<M> sm = product_of<M>(s, symmetric);
  const Buffer& x = t;
  sm.each([&](int i, int j, float value) { x.at(i, j) = value; });
  __syncthreads();
  p = sm;
  p.each([&](int i, int j, float& value) { value += 0.5f * x.at(j, i); });
  __syncthreads();
  p.each([&](int i, int j, float value) { x.at(i, j) = value; });
  __syncthreads();
  sm.multiply(-7);
  sm.add(x, symmetric);
  sm.multiply(-1);  // N
  __syncthreads();
  sm.each([&](int i, int j, float value) { x.at(i, j) = value; });
  __syncthreads();
  p = sm;
  p.each([&](int i, int j, float& value) { value += x.at(j, i) - 15 * s.at(i, j); });
  __syncthreads();
  p.each([&](int i, int j, float value) { x.at(i, j) = value; });  // dM
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
  Product<M> grad{};
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
