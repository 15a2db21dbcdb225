// The iterative pseudo-inverse on tensor cores. A block keeps one matrix and all its working data
// in shared memory. Operands are split into two TF32 numbers each, and three of their products are
// added ("3×TF32"), which is as exact as f32. TF32 or bf16 alone would lose the gradient, because
// the matrix has almost rank one near initialisation.
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

 private:
  /// Tensor cores truncate their sums. So three products are added to the long sum at a time, which
  /// is rounded.
  NYSTROM_DEVICE static void add_split(float (&c)[4], const Tf32Parts (&x)[4],
                                       const Tf32Parts (&y)[2]) {
    const std::uint32_t high[4] = {x[0].high, x[1].high, x[2].high, x[3].high},
                        low[4] = {x[0].low, x[1].low, x[2].low, x[3].low};
    float sum[4] = {};
    mma_tf32(sum, low, y[0].high, y[1].high);
    mma_tf32(sum, high, y[0].low, y[1].low);
    mma_tf32(sum, high, y[0].high, y[1].high);
    NYSTROM_UNROLL
    for (int i = 0; i < 4; ++i) c[i] += sum[i];
  }
};

/// x y, computed by the whole block.
template <int M>
NYSTROM_DEVICE Product<M> product_of(const Matrix& x, const Matrix& y) {
  Product<M> p{};
  p.add(x, y);
  return p;
}

/// M = A Z, W = 15 I − M (7 I − M), T = 13 I − M W: the factors of Z⁺ = Z T / 4. t may be w. Ends
/// with a barrier.
template <int M>
NYSTROM_DEVICE void factors(const Matrix& a, const Matrix& z, const Buffer& am, const Buffer& w,
                            const Buffer& t) {
  Product<M> p = product_of<M>(a, z);
  p.each([&](int i, int j, float value) { am.at(i, j) = value; });
  __syncthreads();
  p = product_of<M>(am, am);
  p.each([&](int i, int j, float value) {
    w.at(i, j) = (i == j ? 15.0f : 0.0f) - 7 * am.at(i, j) + value;
  });
  __syncthreads();
  p = product_of<M>(am, w);
  __syncthreads();
  p.each([&](int i, int j, float value) { t.at(i, j) = (i == j ? 13.0f : 0.0f) - value; });
  __syncthreads();
}

template <int M>
constexpr std::size_t forward_bytes = sizeof(float) * 3 * Layout<M>::size;

/// Block b computes all iterates of matrix b.
template <int M>
__global__ void __launch_bounds__(Layout<M>::threads)
    fused_iterate_kernel(const float* a, const ColumnSum<float>* sums, bool whole,
                         std::int64_t iterations, float* z) {
  using L = Layout<M>;
  const std::int64_t b = blockIdx.x, batch = gridDim.x;
  auto* shared = dynamic_shared<float>();
  const Buffer zs{shared, L::stride}, am{shared + L::size, L::stride},
      t{shared + 2 * L::size, L::stride};
  const Matrix matrix{a + b * M * M, M, 1};
  z += b * M * M;
  const float c = sums[whole ? batch : b].value;
  for (int i = static_cast<int>(threadIdx.x); i < M * M; i += L::threads)
    z[i] = zs.at(i / M, i % M) = matrix.at(i % M, i / M) / c;
  __syncthreads();
  for (std::int64_t k = 0; k < iterations; ++k) {
    factors<M>(matrix, zs, am, t, t);
    Product<M> p = product_of<M>(zs, t);
    z += batch * M * M;
    __syncthreads();
    p.each([&](int i, int j, float value) { z[i * M + j] = zs.at(i, j) = value / 4; });
    __syncthreads();
  }
}

/// 128 landmarks do not fit into shared memory completely. dZ then shares the memory of dA, and the
/// least used buffer is in working memory.
template <int M>
constexpr int grad_buffers = M == 128 ? 3 : 5;
template <int M>
constexpr std::size_t backward_bytes = sizeof(float) * grad_buffers<M>* Layout<M>::size;

/// One iteration of the backward pass. dz holds dZ⁺ and receives dZ; grad += dA. Ends with a
/// barrier.
template <int M>
NYSTROM_DEVICE void step_backwards(const Matrix& a, const Matrix& z, const Buffer& dz,
                                   const Buffer& am, const Buffer& w, const Buffer& dt,
                                   const Buffer& t, Product<M>& grad) {
  factors<M>(a, z, am, w, t);
  Product<M> p = product_of<M>(z.transposed(), dz);
  p.each([&](int i, int j, float value) { dt.at(i, j) = value / 4; });  // dT = Zᵀ dZ⁺ / 4
  p = product_of<M>(dz, Matrix(t).transposed());
  __syncthreads();
  p.each([&](int i, int j, float value) { dz.at(i, j) = value / 4; });  // dZ = dZ⁺ Tᵀ / 4
  const Buffer &dw = t, &dm = w;
  p = product_of<M>(Matrix(am).transposed(), dt);
  p.each([&](int i, int j, float value) { dw.at(i, j) = -value; });  // dW = −Mᵀ dT
  __syncthreads();
  p = product_of<M>(dt, Matrix(w).transposed());
  p.multiply(-1);
  p.add(dw, Matrix(am).transposed());
  p.add(Matrix(am).transposed(), dw);
  __syncthreads();
  p.each([&](int i, int j, float value) {
    dm.at(i, j) = value - 7 * dw.at(i, j);
  });  // dM = −dT Wᵀ − dW (7 I − M)ᵀ + Mᵀ dW
  __syncthreads();
  grad.add(dm, z.transposed());  // dA += dM Zᵀ
  p = product_of<M>(a.transposed(), dm);
  p.each([&](int i, int j, float value) { dz.at(i, j) += value; });  // dZ += Aᵀ dM
  __syncthreads();
}

/// Block b computes da of matrix b, and ⟨dZ0, Aᵀ⟩. work: [batch, M, M], for 128 landmarks only.
template <int M>
__global__ void __launch_bounds__(Layout<M>::threads)
    fused_iterate_grad_kernel(const float* a, const ColumnSum<float>* sums, bool whole,
                              std::int64_t iterations, const float* z, const float* last_dz,
                              float* da, float* inner, float* work) {
  using L = Layout<M>;
  const std::int64_t b = blockIdx.x, batch = gridDim.x, offset = b * M * M;
  auto* shared = dynamic_shared<float>();
  const auto in_shared = [&](int i) { return Buffer{shared + i * L::size, L::stride}; };
  const Buffer dz = M == 128 ? Buffer{da + offset, M} : in_shared(3),
               dt = M == 128 ? Buffer{work + offset, M} : in_shared(4);
  const Matrix matrix{a + offset, M, 1};
  da += offset;
  for (int i = static_cast<int>(threadIdx.x); i < M * M; i += L::threads)
    dz.at(i / M, i % M) = last_dz[offset + i];
  __syncthreads();
  Product<M> grad{};
  for (std::int64_t k = iterations - 1; k >= 0; --k)
    step_backwards<M>(matrix, {z + k * batch * M * M + offset, M, 1}, dz, in_shared(0),
                      in_shared(1), dt, in_shared(2), grad);
  const float c = sums[whole ? batch : b].value;
  float sum = 0;
  grad.each([&](int i, int j, float& value) {
    const float mirrored = dz.at(j, i);
    sum += mirrored * matrix.at(i, j);
    value += mirrored / c;
  });
  sum = block_sum(sum);  // also a barrier: da may share the memory of dz
  if (threadIdx.x == 0) inner[b] = sum;
  const std::int64_t column = whole ? M : sums[b].column;
  grad.each([&](int i, int j, float value) {
    da[i * M + j] = value - (j == column ? sum / (c * c) : 0.0f);
  });
}

template <int M>
void run_forward(const CView& a, const ColumnSum<float>* sums, bool whole, const View& z) {
  launch(fused_iterate_kernel<M>, dim3(static_cast<unsigned>(a.shape[0])), dim3(Layout<M>::threads),
         forward_bytes<M>, a.as<float>(), sums, whole, z.shape[0] - 1, z.as<float>());
}

template <int M>
void run_backward(const CView& a, const ColumnSum<float>* sums, bool whole, const CView& z,
                  const CView& dz, const View& da, float* inner) {
  const Workspace<float> work(da, M == 128 ? a.shape[0] * M * M : 0);
  launch(fused_iterate_grad_kernel<M>, dim3(static_cast<unsigned>(a.shape[0])),
         dim3(Layout<M>::threads), backward_bytes<M>, a.as<float>(), sums, whole, z.shape[0] - 1,
         z.as<float>(), dz.as<float>(), da.as<float>(), inner, work.get());
}

}  // namespace

bool fuses_pseudo_inverse(const CView& a) {
  if (!tensor_cores_take(DType::f32, a.device.index)) return false;
  const std::int64_t m = a.shape[1];
  const std::size_t most = shared_memory_of_a_block();
  return m == 32 || (m == 64 && backward_bytes<64> <= most) ||
         (m == 128 && backward_bytes<128> <= most);
}

void pseudo_inverse_fused(const CView& a, const ColumnSum<float>* sums, bool whole, const View& z) {
  if (a.shape[1] == 32) return run_forward<32>(a, sums, whole, z);
  if (a.shape[1] == 64) return run_forward<64>(a, sums, whole, z);
  run_forward<128>(a, sums, whole, z);
}

void pseudo_inverse_fused_grad(const CView& a, const ColumnSum<float>* sums, bool whole,
                               const CView& z, const CView& dz, const View& da, float* inner) {
  if (a.shape[1] == 32) return run_backward<32>(a, sums, whole, z, dz, da, inner);
  if (a.shape[1] == 64) return run_backward<64>(a, sums, whole, z, dz, da, inner);
  run_backward<128>(a, sums, whole, z, dz, da, inner);
}

}  // namespace nystrom::cuda
