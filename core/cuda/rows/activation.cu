// Activations and their gradients. The gradient of rows may be summed over the rows in the same
// pass, for the bias of the product before. For 16-bit types they use the hardware's
// approximations, whose errors are far below the type's rounding.
#include "core/cuda/approximate.cuh"
#include "core/cuda/rows/reduce.cuh"
#include "core/kernels.h"
#include "core/math.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

/// f(x) and f'(x).
template <class A>
struct Curve {
  A value, slope;
};

/// Formulas of activations of T, in T's accumulate type.
template <class T>
struct Formulas {
  using A = accumulate_t<T>;
  static constexpr bool approximate = sizeof(T) == 2;

  NYSTROM_DEVICE static A exp(A x) {
    if constexpr (approximate) {
      return approximate_exp2(x * 1.44269504f);
    } else {
      return math::exp(x);
    }
  }
  NYSTROM_DEVICE static A reciprocal(A x) {
    if constexpr (approximate) {
      return approximate_reciprocal(x);
    } else {
      return 1 / x;
    }
  }
  /// With u = √(2/π) (x + 0.044715 x³): gate = ½ (1 + tanh u), and gate (1 − gate).
  struct Gate {
    A gate, product;
  };
  NYSTROM_DEVICE static Gate gelu_tanh_gate(A x) {
    if constexpr (approximate) {
      constexpr A minus_two_u = A(-1.59576912160573071176 * 1.44269504088896340736);  // over ln 2
      const A power = x * (minus_two_u + minus_two_u * A(0.044715) * x * x);
      const A e = approximate_exp2(-math::abs(power)), r = reciprocal(1 + e);
      return {power < 0 ? r : e * r, e * r * r};
    } else {
      const A gate = math::gelu_tanh_gate(x);
      return {gate, gate * (1 - gate)};
    }
  }
  NYSTROM_DEVICE static Curve<A> gelu_tanh(A x) {
    const Gate at = gelu_tanh_gate(x);
    // The product is 0 where |x| > 16, and x² may be infinite.
    const A small = x > 16 ? A(16) : x < -16 ? A(-16) : x;
    const A twice_du = A(1.59576912160573071176) * (1 + A(3 * 0.044715) * small * small);
    return {x * at.gate, at.gate + small * at.product * twice_du};
  }
  /// Φ(x), by the fit of math::erfc.
  NYSTROM_DEVICE static A normal_cdf(A x) {
    if constexpr (!approximate) {
      return math::normal_cdf(x);
    } else {
      return approximate_cdf(x);
    }
  }
  NYSTROM_DEVICE static float approximate_cdf(float x) {
    const A a = math::abs(x) * A(0.70710678118654752440);
    const A t = reciprocal(1 + A(0.5) * a);
    A p = A(0.17087277);
    p = p * t - A(0.82215223);
    p = p * t + A(1.48851587);
    p = p * t - A(1.13520398);
    p = p * t + A(0.27886807);
    p = p * t - A(0.18628806);
    p = p * t + A(0.09678418);
    p = p * t + A(0.37409196);
    p = p * t + A(1.00002368);
    p = p * t - A(1.26551223);
    const A tail = A(0.5) * t * exp(p - a * a);
    return x < 0 ? tail : 1 - tail;
  }
  NYSTROM_DEVICE static Curve<A> gelu_erf(A x) {
    const A cdf = normal_cdf(x);
    return {x * cdf, cdf + x * exp(A(-0.5) * x * x) * A(0.39894228040143267794)};
  }
  NYSTROM_DEVICE static Curve<A> silu(A x) {
    const A e = exp(x > 0 ? -x : x), r = reciprocal(1 + e);
    const A gate = x > 0 ? r : e * r;
    return {x * gate, gate + x * gate * (1 - gate)};
  }
  NYSTROM_DEVICE static Curve<A> tanh(A x) {
    const A y = math::tanh(x);
    return {y, 1 - y * y};
  }
  NYSTROM_DEVICE static Curve<A> exponential(A x) {
    const A y = math::exp(x);
    return {y, y};
  }
};

/// Calls f(curve) with the function that maps x to its Curve under `op`.
template <class T, class F>
NYSTROM_DEVICE void with_curve(Unary op, const F& f) {
  using A = accumulate_t<T>;
  using Of = Formulas<T>;
  switch (op) {
    case Unary::gelu_erf: return f([](A x) { return Of::gelu_erf(x); });
    case Unary::gelu_tanh: return f([](A x) { return Of::gelu_tanh(x); });
    case Unary::silu: return f([](A x) { return Of::silu(x); });
    case Unary::relu:
      return f([](A x) { return Curve<A>{x <= 0 ? A(0) : x, x <= 0 ? A(0) : A(1)}; });
    case Unary::tanh: return f([](A x) { return Of::tanh(x); });
    case Unary::exp: return f([](A x) { return Of::exponential(x); });
    case Unary::square: return f([](A x) { return Curve<A>{x * x, 2 * x}; });
  }
}

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
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    with_pack<T>(x.numel(), {x.data, y.data}, [&](auto pack) {
      const std::int64_t packs = x.numel() / pack();
      launch(unary_kernel<T, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0, op, x.as<T>(),
             packs, y.as<T>());
    });
  });
}

void unary_grad(Unary op, CView x, CView dy, View dx, View y, View dx_sums) {
  if (x.numel() == 0) {
    if (dx_sums) fill(dx_sums, 0);
    return;
  }
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
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
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    with_pack<T>(y.dim(-1), {x.data, y.data}, [&](auto pack) {
      const std::int64_t packs = y.numel() / pack();
      launch(gated_kernel<T, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0, op, x.as<T>(),
             packs, y.dim(-1), y.as<T>());
    });
  });
}

void gated_unary_grad(Unary op, CView x, CView dy, View dx, View y) {
  if (dy.numel() == 0) return;
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    with_pack<T>(dy.dim(-1), {x.data, dy.data, dx.data, y.data}, [&](auto pack) {
      const std::int64_t packs = dy.numel() / pack();
      launch(gated_gradient_kernel<T, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0, op,
             x.as<T>(), dy.as<T>(), packs, dy.dim(-1), dx.as<T>(), y.as<T>());
    });
  });
}

}  // namespace nystrom::kernels::cuda
