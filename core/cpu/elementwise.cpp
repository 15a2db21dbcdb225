// Element-wise kernels: one strided loop each, with sums in the accumulate type.
#include "core/cpu/convert.h"
#include "core/cpu/level.h"
#include "core/cpu/reduce.h"
#include "core/kernels.h"
#include "core/math.h"
#include "core/strides.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

/// A joint loop over strided views of equal shapes, in pieces as long as the strides permit. The
/// body iterates over the innermost axis, run() over the others.
template <int N>
struct StridedLoop : Strides<N> {
  using Strides<N>::rank, Strides<N>::shape, Strides<N>::stride;

  NYSTROM_INLINE explicit StridedLoop(const ViewBase* const (&views)[N]) : Strides<N>(views) {
    if (rank == 0) shape[rank++] = 1;
  }

  /// Calls body(offsets of the N views, length) for pieces of the innermost axis, on all threads.
  template <class Body>
  NYSTROM_INLINE void run(const Body& body) const {
    const std::int64_t inner = shape[rank - 1];
    std::int64_t outer = 1;
    for (int i = 0; i < rank - 1; ++i) outer *= shape[i];
    if (inner == 0 || outer == 0) return;
    // A single long row is divided too, so that all threads have work.
    const std::int64_t piece = outer == 1 ? elementwise_grain : inner;
    const std::int64_t pieces = (inner + piece - 1) / piece;
    parallel_each(outer * pieces, (elementwise_grain + piece - 1) / piece, [&](std::int64_t i) {
      const std::int64_t start = i % pieces * piece;
      std::int64_t offset[N];
      for (int v = 0; v < N; ++v) offset[v] = start * stride[v][rank - 1];
      std::int64_t rest = i / pieces;
      for (int axis = rank - 2; axis >= 0; --axis) {
        const std::int64_t index = rest % shape[axis];
        rest /= shape[axis];
        for (int v = 0; v < N; ++v) offset[v] += index * stride[v][axis];
      }
      body(offset, start + piece < inner ? piece : inner - start);
    });
  }
};

/// Calls op(element of y, element of x) for all of them.
template <class From, class To, class Op>
void pairwise(const CView& x, const View& y, const Op& op) {
  const StridedLoop<2> loop({&x, &y});
  const std::int64_t sx = loop.stride[0][loop.rank - 1];
  const std::int64_t sy = loop.stride[1][loop.rank - 1];
  loop.run([&](const std::int64_t* offset, std::int64_t n) {
    const From* __restrict source = x.as<From>() + offset[0];
    To* __restrict target = y.as<To>() + offset[1];
    if (sx == 1 && sy == 1) {
      for (std::int64_t i = 0; i < n; ++i) op(target[i], source[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) op(target[i * sy], source[i * sx]);
    }
  });
}

template <class From, class To>
void copy_typed(const CView& x, const View& y) {
  pairwise<From, To>(x, y, [](To& target, From source) { target = convert<To>(source); });
}

template <class T>
void fill_typed(const View& y, T value) {
  const StridedLoop<1> loop({&y});
  const std::int64_t step = loop.stride[0][loop.rank - 1];
  loop.run([&](const std::int64_t* offset, std::int64_t n) {
    T* target = y.as<T>() + offset[0];
    for (std::int64_t i = 0; i < n; ++i) target[i * step] = value;
  });
}

template <class From, class To>
void accumulate_typed(const CView& x, double scale, const View& y) {
  using A = accumulate_t<To>;
  pairwise<From, To>(x, y, [factor = static_cast<A>(scale)](To& target, From source) {
    target = convert<To>(load(target) + factor * static_cast<A>(load(source)));
  });
}

template <class T, class Op>
void binary_typed(const CView& a, const CView& b, const View& y, const Op& op) {
  const ViewBase wide_a = broadcast_view(a, y);
  const ViewBase wide_b = broadcast_view(b, y);
  const StridedLoop<3> loop({&wide_a, &wide_b, &y});
  const int last = loop.rank - 1;
  const std::int64_t sa = loop.stride[0][last], sb = loop.stride[1][last],
                     sy = loop.stride[2][last];
  loop.run([&](const std::int64_t* offset, std::int64_t n) {
    const T* pa = a.as<T>() + offset[0];
    const T* pb = b.as<T>() + offset[1];
    T* py = y.as<T>() + offset[2];
    if (sa == 1 && sb == 1 && sy == 1) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) py[i] = convert<T>(op(load(pa[i]), load(pb[i])));
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        py[i * sy] = convert<T>(op(load(pa[i * sa]), load(pb[i * sb])));
    }
  });
}

/// y[i] = f(x[i]) over contiguous memory.
template <class T, class F>
void map(const CView& x, const View& y, const F& f) {
  const T* px = x.as<T>();
  T* py = y.as<T>();
  parallel_ranges(x.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) py[i] = convert<T>(f(load(px[i])));
  });
}

/// dx[i] = slope(x[i]) · dy[i], and y[i] = f(x[i]) unless y is absent.
template <class T, class F, class Slope>
void map_grad(const CView& x, const CView& dy, const View& dx, const View& y, const F& f,
              const Slope& slope) {
  const T* px = x.as<T>();
  const T* pdy = dy.as<T>();
  T* pdx = dx.as<T>();
  T* py = y.as<T>();
  parallel_ranges(x.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    if (!py) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        pdx[i] = convert<T>(slope(load(px[i])) * load(pdy[i]));
      return;
    }
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      pdx[i] = convert<T>(slope(load(px[i])) * load(pdy[i]));
      py[i] = convert<T>(f(load(px[i])));
    }
  });
}

/// y = f(a) · b for the halves a, b of each row of x.
template <class T, class F>
void gate(const CView& x, const View& y, const F& f) {
  const std::int64_t n = y.dim(-1);
  parallel_each(y.rows(), row_grain(n), [&](std::int64_t r) {
    const T* __restrict a = x.as<T>() + 2 * r * n;
    T* __restrict py = y.as<T>() + r * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) py[i] = convert<T>(f(load(a[i])) * load(a[n + i]));
  });
}

/// dx = [slope(a) · b · dy, f(a) · dy], and y = f(a) · b unless y is absent.
template <class T, class F, class Slope>
void gate_grad(const CView& x, const CView& dy, const View& dx, const View& y, const F& f,
               const Slope& slope) {
  using A = accumulate_t<T>;
  const std::int64_t n = dy.dim(-1);
  parallel_ranges(dy.rows(), row_grain(n), [&](std::int64_t begin, std::int64_t end) {
    const Scratch<A> values(n);
    for (std::int64_t r = begin; r < end; ++r) {
      const T* a = x.as<T>() + 2 * r * n;
      const T* grad = dy.as<T>() + r * n;
      T* pdx = dx.as<T>() + 2 * r * n;
      A* gated = values.get();
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const A value = f(load(a[i])), slope_there = slope(load(a[i])), b = load(a[n + i]);
        gated[i] = value * b;
        pdx[i] = convert<T>(slope_there * b * load(grad[i]));
        pdx[n + i] = convert<T>(value * load(grad[i]));
      }
      if (!y) continue;
      T* py = y.as<T>() + r * n;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) py[i] = convert<T>(gated[i]);
    }
  });
}

/// Calls g(op, the derivative of op) with functions of A.
template <class A, class G>
NYSTROM_INLINE void visit_unary(Unary op, const G& g) {
  switch (op) {
    case Unary::gelu_erf:
      return g([](A v) { return math::gelu_erf(v); }, [](A v) { return math::gelu_erf_slope(v); });
    case Unary::gelu_tanh:
      return g([](A v) { return math::gelu_tanh(v); },
               [](A v) { return math::gelu_tanh_slope(v); });
    case Unary::silu:
      return g([](A v) { return math::silu(v); }, [](A v) { return math::silu_slope(v); });
    case Unary::relu:
      // NaN stays.
      return g([](A v) { return v <= 0 ? A(0) : v; }, [](A v) { return v <= 0 ? A(0) : A(1); });
    case Unary::tanh:
      return g([](A v) { return math::tanh(v); },
               [](A v) {
                 const A t = math::tanh(v);
                 return 1 - t * t;
               });
    case Unary::exp: return g([](A v) { return math::exp(v); }, [](A v) { return math::exp(v); });
    case Unary::square: return g([](A v) { return v * v; }, [](A v) { return 2 * v; });
  }
}

}  // namespace

void copy(CView x, View y) {
  if (!is_float(x.dtype)) {  // integers keep their type: only the width matters
    if (x.dtype != y.dtype) throw_not_a_float(x.dtype);
    switch (size_of(x.dtype)) {
      case 1: return copy_typed<std::uint8_t, std::uint8_t>(x, y);
      case 4: return copy_typed<std::int32_t, std::int32_t>(x, y);
      default: return copy_typed<std::int64_t, std::int64_t>(x, y);
    }
  }
  visit_any_float(x.dtype, [&](auto from) {
    visit_any_float(y.dtype, [&](auto to) {
      copy_typed<typename decltype(from)::type, typename decltype(to)::type>(x, y);
    });
  });
}

void fill(View y, double value) {
  switch (y.dtype) {
    case DType::u8: return fill_typed(y, static_cast<std::uint8_t>(value));
    case DType::i32: return fill_typed(y, static_cast<std::int32_t>(value));
    case DType::i64: return fill_typed(y, static_cast<std::int64_t>(value));
    default:
      visit_any_float(y.dtype, [&]<class T>(TypeTag<T>) { fill_typed(y, convert<T>(value)); });
  }
}

void accumulate(CView x, double scale, View y) {
  visit_float(x.dtype, [&](auto from) {
    visit_float(y.dtype, [&](auto to) {
      accumulate_typed<typename decltype(from)::type, typename decltype(to)::type>(x, scale, y);
    });
  });
}

void binary(Binary op, CView a, CView b, View y) {
  visit_float(y.dtype, [&]<class T>(TypeTag<T>) {
    switch (op) {
      case Binary::add: return binary_typed<T>(a, b, y, [](auto p, auto q) { return p + q; });
      case Binary::subtract: return binary_typed<T>(a, b, y, [](auto p, auto q) { return p - q; });
      case Binary::multiply: return binary_typed<T>(a, b, y, [](auto p, auto q) { return p * q; });
      case Binary::divide: return binary_typed<T>(a, b, y, [](auto p, auto q) { return p / q; });
    }
  });
}

void affine(CView x, double scale, double shift, View y) {
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    map<T>(x, y, [s = static_cast<A>(scale), o = static_cast<A>(shift)](A v) { return s * v + o; });
  });
}

void unary(Unary op, CView x, View y) {
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    visit_unary<accumulate_t<T>>(op, [&](auto f, auto) { map<T>(x, y, f); });
  });
}

void unary_grad(Unary op, CView x, CView dy, View dx, View y, View dx_sums) {
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    visit_unary<accumulate_t<T>>(op,
                                 [&](auto f, auto slope) { map_grad<T>(x, dy, dx, y, f, slope); });
  });
  if (dx_sums) sum_over_rows(dx, dx_sums);
}

void gated_unary(Unary op, CView x, View y) {
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    visit_unary<accumulate_t<T>>(op, [&](auto f, auto) { gate<T>(x, y, f); });
  });
}

void gated_unary_grad(Unary op, CView x, CView dy, View dx, View y) {
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    visit_unary<accumulate_t<T>>(op,
                                 [&](auto f, auto slope) { gate_grad<T>(x, dy, dx, y, f, slope); });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
