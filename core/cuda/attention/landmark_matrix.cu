// The landmarks of a head and their softmax in one kernel, and their gradient in another: one block
// a head. Operands are in shared memory if they fit. As many landmarks as a head is wide, 32 or 64
// in 16 bits, are multiplied on tensor cores.
#include <cmath>

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/products/square_products.cuh"
#include "core/cuda/shared.cuh"
#include "core/kernels.h"
#include "core/math.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;
constexpr int warps = block / warp_size;

/// x is [b, m, parts, h, d], landmarks are [b, parts, h, m, d].
struct Sizes {
  std::int64_t m, parts, heads, d;
  NYSTROM_DEVICE std::int64_t of_x(std::int64_t head, std::int64_t part, std::int64_t row) const {
    return (((head / heads) * m + row) * parts + part) * heads * d + head % heads * d;
  }
  NYSTROM_DEVICE std::int64_t of_landmark(std::int64_t head, std::int64_t part,
                                          std::int64_t row) const {
    return (((head / heads * parts + part) * heads + head % heads) * m + row) * d;
  }
};

/// The landmarks of one head, queries and keys: in shared memory with padded rows, or where they
/// are.
template <class T, bool Held>
struct Operands {
  using A = accumulate_t<T>;
  const T* landmarks;
  A* shared;
  Sizes size;
  std::int64_t head;

  NYSTROM_DEVICE A* place(std::int64_t part, std::int64_t row) const {
    return shared + (part * size.m + row) * (size.d + 1);
  }
  NYSTROM_DEVICE A at(std::int64_t part, std::int64_t row, std::int64_t c) const {
    if constexpr (Held) {
      return place(part, row)[c];
    } else {
      return load(landmarks[size.of_landmark(head, part, row) + c]);
    }
  }
  NYSTROM_DEVICE A query(std::int64_t row, std::int64_t c) const { return at(0, row, c); }
  NYSTROM_DEVICE A key(std::int64_t row, std::int64_t c) const {
    return at(size.parts - 1, row, c);
  }
};

template <class T, bool Held>
__global__ void forward_kernel(const accumulate_t<T>* x, Mixed<accumulate_t<T>, true> bias,
                               Sizes size, accumulate_t<T> scale, T* landmarks,
                               accumulate_t<T>* a) {
  using A = accumulate_t<T>;
  const std::int64_t head = blockIdx.x, m = size.m, d = size.d;
  const Operands<T, Held> of{landmarks, dynamic_shared<A>(), size, head};
  for (std::int64_t i = threadIdx.x; i < size.parts * m * d; i += block) {
    const std::int64_t c = i % d, row = i / d % m, part = i / d / m;
    const A value = x[size.of_x(head, part, row) + c] +
                    bias.get((part * size.heads + head % size.heads) * d + c);
    const T rounded = convert<T>(value);
    landmarks[size.of_landmark(head, part, row) + c] = rounded;
    if constexpr (Held) of.place(part, row)[c] = load(rounded);
  }
  __syncthreads();
  for (std::int64_t i = warp_index(); i < m; i += warps) {
    A* row = a + (head * m + i) * m;
    A largest = -static_cast<A>(INFINITY), sum = 0;
    for (std::int64_t j = lane_index(); j < m; j += warp_size) {
      A score = 0;
      for (std::int64_t c = 0; c < d; ++c) score += of.query(i, c) * of.key(j, c);
      row[j] = scale * score;  // read by this lane only
      largest = larger(largest, scale * score);
    }
    largest = warp_max(largest);
    for (std::int64_t j = lane_index(); j < m; j += warp_size) {
      row[j] = math::exp(row[j] - largest);
      sum += row[j];
    }
    sum = 1 / warp_sum(sum);
    for (std::int64_t j = lane_index(); j < m; j += warp_size) row[j] *= sum;
  }
}

template <class A>
struct Gradients {
  const A *a, *da;
  CView dqueries, dkeys;  ///< [b, h, m, d], of type A
  A scale;
  A* dx;
  A* scores;  ///< [b · h, m, m], if shared memory has no room
  NYSTROM_DEVICE static A at(const CView& x, std::int64_t b, std::int64_t h, std::int64_t row,
                             std::int64_t c) {
    return static_cast<const A*>(x.data)[b * x.stride[0] + h * x.stride[1] + row * x.stride[2] + c];
  }
};

template <class T, bool Held>
__global__ void backward_kernel(const T* landmarks, Sizes size, Gradients<accumulate_t<T>> g) {
  using A = accumulate_t<T>;
  const std::int64_t head = blockIdx.x, m = size.m, d = size.d, b = head / size.heads,
                     h = head % size.heads, stride = Held ? m + 1 : m;
  const Operands<T, Held> of{landmarks, dynamic_shared<A>(), size, head};
  A* ds = Held ? of.shared + size.parts * m * (d + 1) : g.scores + head * m * m;
  if constexpr (Held) {
    for (std::int64_t i = threadIdx.x; i < size.parts * m * d; i += block) {
      const std::int64_t c = i % d, row = i / d % m, part = i / d / m;
      of.place(part, row)[c] = load(landmarks[size.of_landmark(head, part, row) + c]);
    }
  }
  for (std::int64_t i = warp_index(); i < m; i += warps) {
    const A *a = g.a + (head * m + i) * m, *da = g.da + (head * m + i) * m;
    A inner = 0;
    for (std::int64_t j = lane_index(); j < m; j += warp_size) inner += a[j] * da[j];
    inner = warp_sum(inner);
    for (std::int64_t j = lane_index(); j < m; j += warp_size)
      ds[i * stride + j] = g.scale * a[j] * (da[j] - inner);
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < m * d; i += block) {
    const std::int64_t row = i / d, c = i % d;
    A dq = Gradients<A>::at(g.dqueries, b, h, row, c), dk = Gradients<A>::at(g.dkeys, b, h, row, c);
    for (std::int64_t j = 0; j < m; ++j) {
      dq += ds[row * stride + j] * of.key(j, c);
      dk += ds[j * stride + row] * of.query(j, c);
    }
    g.dx[size.of_x(head, 0, row) + c] = size.parts == 2 ? dq : dq + dk;
    if (size.parts == 2) g.dx[size.of_x(head, 1, row) + c] = dk;
  }
}

// The same for M landmarks of width M on tensor cores: queries, keys, and scores or their gradients
// are three matrices in shared memory.

template <int M>
constexpr std::size_t square_bytes = 3 * sizeof(float) * Layout<M>::size;

template <int M>
NYSTROM_DEVICE Buffer square_in_shared(std::int64_t i) {
  return {dynamic_shared<float>() + i * Layout<M>::size, Layout<M>::stride};
}

template <class T, int M>
__global__ void __launch_bounds__(Layout<M>::threads)
    square_forward_kernel(const float* x, Mixed<float, true> bias, Sizes size, float scale,
                          T* landmarks, float* a) {
  constexpr int pack = 4, packs = M / pack;
  const std::int64_t head = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < size.parts * M * packs; i += Layout<M>::threads) {
    const int c = i % packs * pack, row = i / packs % M, part = i / packs / M;
    auto values = load_pack<pack>(x + size.of_x(head, part, row) + c);
    Pack<T, pack> rounded;
    NYSTROM_UNROLL
    for (int n = 0; n < pack; ++n) {
      rounded.value[n] = convert<T>(values.value[n] +
                                    bias.get((part * size.heads + head % size.heads) * M + c + n));
      values.value[n] = load(rounded.value[n]);
    }
    store_pack(landmarks + size.of_landmark(head, part, row) + c, rounded);
    store_pack(&square_in_shared<M>(part).at(row, c), values);
  }
  __syncthreads();
  const Buffer scores = square_in_shared<M>(2);
  BlockProduct<M> p = product_of<M>(square_in_shared<M>(0),
                                    Matrix(square_in_shared<M>(size.parts - 1)).transposed());
  p.each([&](int i, int j, float value) { scores.at(i, j) = scale * value; });
  __syncthreads();
  for (int i = warp_index(); i < M; i += Layout<M>::warps) {
    float row[M / warp_size], largest = -INFINITY, sum = 0;
    NYSTROM_UNROLL
    for (int n = 0; n < M / warp_size; ++n) {
      row[n] = scores.at(i, n * warp_size + lane_index());
      largest = larger(largest, row[n]);
    }
    largest = warp_max(largest);
    NYSTROM_UNROLL
    for (int n = 0; n < M / warp_size; ++n) sum += row[n] = math::exp(row[n] - largest);
    sum = 1 / warp_sum(sum);
    NYSTROM_UNROLL
    for (int n = 0; n < M / warp_size; ++n)
      a[(head * M + i) * M + n * warp_size + lane_index()] = row[n] * sum;
  }
}

template <class T, int M>
__global__ void __launch_bounds__(Layout<M>::threads)
    square_backward_kernel(const T* landmarks, Sizes size, Gradients<float> g) {
  constexpr int pack = 4, packs = M / pack;
  const std::int64_t head = blockIdx.x, b = head / size.heads, h = head % size.heads;
  for (int i = static_cast<int>(threadIdx.x); i < size.parts * M * packs; i += Layout<M>::threads) {
    const int c = i % packs * pack, row = i / packs % M, part = i / packs / M;
    const auto rounded = load_pack<pack>(landmarks + size.of_landmark(head, part, row) + c);
    Pack<float, pack> values;
    NYSTROM_UNROLL
    for (int n = 0; n < pack; ++n) values.value[n] = load(rounded.value[n]);
    store_pack(&square_in_shared<M>(part).at(row, c), values);
  }
  const Buffer ds = square_in_shared<M>(2);
  for (int i = warp_index(); i < M; i += Layout<M>::warps) {
    const float *a = g.a + (head * M + i) * M, *da = g.da + (head * M + i) * M;
    float inner = 0;
    NYSTROM_UNROLL
    for (int j = lane_index(); j < M; j += warp_size) inner += a[j] * da[j];
    inner = warp_sum(inner);
    NYSTROM_UNROLL
    for (int j = lane_index(); j < M; j += warp_size)
      ds.at(i, j) = g.scale * a[j] * (da[j] - inner);
  }
  __syncthreads();
  const auto store = [&](BlockProduct<M>& p, int part, const CView& more) {
    p.each_pair([&](int i, int j, float left, float right) {
      left += Gradients<float>::at(more, b, h, i, j);
      right += Gradients<float>::at(more, b, h, i, j + 1);
      store_pack(g.dx + size.of_x(head, part, i) + j, Pack<float, 2>{{left, right}});
    });
  };
  BlockProduct<M> p = product_of<M>(ds, square_in_shared<M>(size.parts - 1));
  if (size.parts == 2) {
    store(p, 0, g.dqueries);
    p = {};
  } else {
    p.each(
        [&](int i, int j, float& value) { value += Gradients<float>::at(g.dqueries, b, h, i, j); });
  }
  p.add(Matrix(ds).transposed(), square_in_shared<M>(0));
  store(p, static_cast<int>(size.parts) - 1, g.dkeys);
}

/// Calls f(M as a constant) if those kernels take the problem. Returns false for others.
template <class T, class F>
bool with_square(const Sizes& size, std::initializer_list<const void*> pointers, int device,
                 const F& f) {
  if constexpr (sizeof(T) == 2) {
    if (size.m != size.d || !tensor_cores_take(DType::f32, device) || !are_aligned(pointers))
      return false;
    if (size.m == 32) return f(std::integral_constant<int, 32>{}), true;
    if (size.m == 64) return f(std::integral_constant<int, 64>{}), true;
  }
  return false;
}

/// landmarks are [b, parts, h, m, d].
Sizes sizes_of(const CView& landmarks) {
  return {landmarks.shape[3], landmarks.shape[1], landmarks.shape[2], landmarks.shape[4]};
}

/// Calls f(whether the operands and `more` numbers fit into shared memory, and their bytes there).
template <class A, class F>
void with_room(const Sizes& size, std::int64_t more, const F& f) {
  const std::size_t bytes =
      sizeof(A) * static_cast<std::size_t>(size.parts * size.m * (size.d + 1) + more);
  bytes <= shared_memory_of_a_block() ? f(std::true_type{}, bytes)
                                      : f(std::false_type{}, std::size_t{0});
}

}  // namespace

void landmark_matrix(CView x, CView bias, double scale, View landmarks, View a) {
  const Sizes size = sizes_of(landmarks);
  visit_any_float(landmarks.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    const dim3 heads(static_cast<unsigned>(x.shape[0] * size.heads));
    const bool done = with_square<T>(size, {x.data, landmarks.data}, x.device.index, [&](auto m) {
      launch(square_forward_kernel<T, m()>, heads, dim3(Layout<m()>::threads), square_bytes<m()>,
             x.as<float>(), mixed<float>(bias), size, static_cast<float>(scale), landmarks.as<T>(),
             a.as<float>());
    });
    if (done) return;
    with_room<A>(size, 0, [&](auto held, std::size_t bytes) {
      launch(forward_kernel<T, held()>, heads, dim3(block), bytes, x.as<A>(), mixed<A>(bias), size,
             static_cast<A>(scale), landmarks.as<T>(), a.as<A>());
    });
  });
}

void landmark_matrix_grad(CView landmarks, CView a, CView da, double scale, CView dqueries,
                          CView dkeys, View dx) {
  const Sizes size = sizes_of(landmarks);
  visit_any_float(landmarks.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    const dim3 heads(static_cast<unsigned>(dx.shape[0] * size.heads));
    const bool done = with_square<T>(size, {landmarks.data, dx.data}, dx.device.index, [&](auto m) {
      launch(square_backward_kernel<T, m()>, heads, dim3(Layout<m()>::threads), square_bytes<m()>,
             landmarks.as<T>(), size,
             Gradients<float>{a.as<float>(), da.as<float>(), dqueries, dkeys,
                              static_cast<float>(scale), dx.as<float>(), nullptr});
    });
    if (done) return;
    with_room<A>(size, size.m * (size.m + 1), [&](auto held, std::size_t bytes) {
      const Workspace<A> scores(dx, held() ? 0 : a.numel());
      launch(backward_kernel<T, held()>, heads, dim3(block), bytes, landmarks.as<T>(), size,
             Gradients<A>{a.as<A>(), da.as<A>(), dqueries, dkeys, static_cast<A>(scale), dx.as<A>(),
                          scores.get()});
    });
  });
}

}  // namespace nystrom::kernels::cuda
