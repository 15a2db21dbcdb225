// Activations and their gradients. The gradient of rows may be summed over the rows in the same
// pass, for the bias of the product before.
#include "core/cuda/rows/activation.cuh"
#include "core/cuda/rows/reduce.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

template <class T, int V>
__global__ void unary_kernel(Unary op, const T* x, std::int64_t packs, T* y) {
  for (std::int64_t at = grid_index(); at < packs; at += grid_size()) {
    const auto in = load_pack<V>(x + at * V);
    Pack<T, V> out{};
    with_curve<T>(op, [&](const auto& curve) {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) out.value[i] = convert<T>(curve(load(in.value[i])).value);
    });
    store_pack(y + at * V, out);
  }
}

/// dx = op'(x) ∘ dy and y = op(x), for a pack of neighbours. y may be null.
template <class T, int V>
struct Gradient {
  Unary op;
  const T *x, *dy;
  T *dx, *y;

  /// Adds the pack's dx to `sum`.
  NYSTROM_DEVICE void operator()(std::int64_t offset, accumulate_t<T> (&sum)[V]) const {
    const auto in = load_pack<V>(x + offset), grad = load_pack<V>(dy + offset);
    Pack<T, V> out{}, value{};
    with_curve<T>(op, [&](const auto& curve) {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) {
        const auto at = curve(load(in.value[i]));
        out.value[i] = convert<T>(at.slope * load(grad.value[i]));
        value.value[i] = convert<T>(at.value);
        sum[i] += load(out.value[i]);
      }
    });
    store_pack(dx + offset, out);
    if (y) store_pack(y + offset, value);
  }
};

template <class T, int V>
__global__ void gradient_kernel(Gradient<T, V> gradient, std::int64_t packs) {
  accumulate_t<T> unused[V] = {};
  for (std::int64_t at = grid_index(); at < packs; at += grid_size()) gradient(at * V, unused);
}

/// y = op(a) ∘ b for the halves a, b of each row of x; V columns at once.
template <class T, int V>
__global__ void gated_kernel(Unary op, const T* x, std::int64_t packs, std::int64_t columns, T* y) {
  for (std::int64_t at = grid_index(); at < packs; at += grid_size()) {
    const std::int64_t row = at * V / columns;
    const T* a = x + row * columns + at * V;
    const auto in = load_pack<V>(a), gate = load_pack<V>(a + columns);
    Pack<T, V> out{};
    with_curve<T>(op, [&](const auto& curve) {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i)
        out.value[i] = convert<T>(curve(load(in.value[i])).value * load(gate.value[i]));
    });
    store_pack(y + at * V, out);
  }
}

/// The gradients of both halves, and y unless it is null.
template <class T, int V>
__global__ void gated_gradient_kernel(Unary op, const T* x, const T* dy, std::int64_t packs,
                                      std::int64_t columns, T* dx, T* y) {
  for (std::int64_t at = grid_index(); at < packs; at += grid_size()) {
    const std::int64_t first = at * V / columns * columns + at * V;  // of a, in x and dx
    const auto in = load_pack<V>(x + first), gate = load_pack<V>(x + first + columns),
               grad = load_pack<V>(dy + at * V);
    Pack<T, V> da{}, db{}, out{};
    with_curve<T>(op, [&](const auto& curve) {
      NYSTROM_UNROLL
      for (int i = 0; i < V; ++i) {
        const auto point = curve(load(in.value[i]));
        da.value[i] = convert<T>(point.slope * load(gate.value[i]) * load(grad.value[i]));
        db.value[i] = convert<T>(point.value * load(grad.value[i]));
        out.value[i] = convert<T>(point.value * load(gate.value[i]));
      }
    });
    store_pack(dx + first, da);
    store_pack(dx + first + columns, db);
    if (y) store_pack(y + at * V, out);
  }
}

}  // namespace

void unary(Unary op, CView x, View y) {
  visit_any_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_pack<T>(x.numel(), {x.data, y.data}, [&](auto pack) {
      const std::int64_t packs = x.numel() / pack();
      launch(unary_kernel<T, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0, op, x.as<T>(),
             packs, y.as<T>());
    });
  });
}

void unary_grad(Unary op, CView x, CView dy, View dx, View y, View dx_sums) {
  if (x.numel() == 0) return;
  visit_any_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t columns = dx_sums ? x.dim(-1) : x.numel();
    with_pack<T>(columns, {x.data, dy.data, dx.data, y.data}, [&](auto pack) {
      const Gradient<T, pack()> gradient{op, x.as<T>(), dy.as<T>(), dx.as<T>(), y.as<T>()};
      if (dx_sums)
        return sum_columns<pack()>(gradient, 1, x.rows(), columns, false, dx_sums,
                                   dx_sums.as<accumulate_t<T>>());
      const std::int64_t packs = x.numel() / pack();
      launch(gradient_kernel<T, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0, gradient,
             packs);
    });
  });
}

void gated_unary(Unary op, CView x, View y) {
  if (y.numel() == 0) return;
  visit_any_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_pack<T>(y.dim(-1), {x.data, y.data}, [&](auto pack) {
      const std::int64_t packs = y.numel() / pack();
      launch(gated_kernel<T, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0, op, x.as<T>(),
             packs, y.dim(-1), y.as<T>());
    });
  });
}

void gated_unary_grad(Unary op, CView x, CView dy, View dx, View y) {
  if (dy.numel() == 0) return;
  visit_any_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_pack<T>(dy.dim(-1), {x.data, dy.data, dx.data, y.data}, [&](auto pack) {
      const std::int64_t packs = dy.numel() / pack();
      launch(gated_gradient_kernel<T, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0, op,
             x.as<T>(), dy.as<T>(), packs, dy.dim(-1), dx.as<T>(), y.as<T>());
    });
  });
}

}  // namespace nystrom::kernels::cuda
