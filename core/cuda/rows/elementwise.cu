// Element-wise kernels. Contiguous operands are accessed 16 bytes at a time, others through merged
// strides.
#include "core/cuda/strided.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

template <class To>
struct Convert {
  template <class From>
  NYSTROM_DEVICE To operator()(To, From x) const {
    return nystrom::cuda::convert<To>(x);
  }
};

/// Integers are moved unchanged.
struct Move {
  template <class T>
  NYSTROM_DEVICE T operator()(T, T x) const {
    return x;
  }
};

template <class T>
struct Constant {
  T value;
  NYSTROM_DEVICE T operator()(T) const { return value; }
};

/// Sums are in f64 only if one side is f64.
struct AddScaled {
  double scale;
  template <class To, class From>
  NYSTROM_DEVICE To operator()(To y, From x) const {
    if constexpr (sizeof(To) == 8 || sizeof(From) == 8) {
      return convert<To>(static_cast<double>(load(y)) + scale * static_cast<double>(load(x)));
    } else {
      return convert<To>(load(y) + static_cast<float>(scale) * load(x));
    }
  }
};

struct Combine {
  Binary op;
  template <class T>
  NYSTROM_DEVICE T operator()(T, T a, T b) const {
    const accumulate_t<T> p = load(a), q = load(b);
    switch (op) {
      case Binary::add: return convert<T>(p + q);
      case Binary::subtract: return convert<T>(p - q);
      case Binary::multiply: return convert<T>(p * q);
      case Binary::divide: return convert<T>(p / q);
    }
    return a;
  }
};

struct ScaleAndShift {
  double scale, shift;
  template <class T>
  NYSTROM_DEVICE T operator()(T, T x) const {
    using A = accumulate_t<T>;
    return convert<T>(static_cast<A>(scale) * load(x) + static_cast<A>(shift));
  }
};

template <class F>
void visit_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64: return f(TypeTag<std::int64_t>{});
    case DType::i32: return f(TypeTag<std::int32_t>{});
    default: return f(TypeTag<std::uint8_t>{});
  }
}

}  // namespace

void copy(CView x, View y) {
  if (!is_float(x.dtype)) {
    return visit_integer(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      map_strided<T, T>(Move{}, Access::write, y, x);
    });
  }
  visit_any_float(x.dtype, [&](auto from) {
    visit_any_float(y.dtype, [&](auto to) {
      using To = typename decltype(to)::type;
      map_strided<To, typename decltype(from)::type>(Convert<To>{}, Access::write, y, x);
    });
  });
}

void fill(View y, double value) {
  const auto run = [&](auto tag, auto constant) {
    using T = typename decltype(tag)::type;
    map_strided<T>(Constant<T>{constant}, Access::write, y);
  };
  switch (y.dtype) {
    case DType::bf16: return run(TypeTag<bf16>{}, bf16(static_cast<float>(value)));
    case DType::f16: return run(TypeTag<f16>{}, f16(static_cast<float>(value)));
    case DType::f32: return run(TypeTag<float>{}, static_cast<float>(value));
    case DType::f64: return run(TypeTag<double>{}, value);
    default:
      visit_integer(y.dtype,
                    [&](auto tag) { run(tag, static_cast<typename decltype(tag)::type>(value)); });
  }
}

void accumulate(CView x, double scale, View y) {
  visit_any_float(x.dtype, [&](auto from) {
    visit_any_float(y.dtype, [&](auto to) {
      map_strided<typename decltype(to)::type, typename decltype(from)::type>(
          AddScaled{scale}, Access::read_write, y, x);
    });
  });
}

void binary(Binary op, CView a, CView b, View y) {
  visit_any_float(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_strided<T, T, T>(Combine{op}, Access::write, y, a, b);
  });
}

void affine(CView x, double scale, double shift, View y) {
  visit_any_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_strided<T, T>(ScaleAndShift{scale, shift}, Access::write, y, x);
  });
}

}  // namespace nystrom::kernels::cuda
