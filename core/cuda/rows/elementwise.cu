// Element-wise kernels. Contiguous operands are accessed 16 bytes at a time, others through merged
// strides.
#include "core/cuda/launch.cuh"
#include "core/kernels.h"
#include "core/strides.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

// ---- y[i] = f(y[i], x[i]…) over strided views of equal or broadcast shapes ----------------------

/// Whether the function reads the result's old value.
enum class Access { write, read_write };

template <int N>
bool is_contiguous(const Strides<N>& strides) {
  for (int v = 0; v < N; ++v)
    if (strides.rank > 0 && strides.stride[v][0] != 1) return false;
  return strides.rank <= 1;
}

/// Element `index` in row-major order: its offset in view v.
template <class Index, int N>
NYSTROM_DEVICE void offsets_of(const Strides<N>& strides, Index index, std::int64_t (&offset)[N]) {
  for (int v = 0; v < N; ++v) offset[v] = 0;
  for (int axis = strides.rank - 1; axis >= 0; --axis) {
    const Index size = static_cast<Index>(strides.shape[axis]);
    const auto place = static_cast<std::int64_t>(index % size);
    index /= size;
    for (int v = 0; v < N; ++v) offset[v] += place * strides.stride[v][axis];
  }
}

template <int V, class F, class Out, class... In>
__global__ void map_contiguous_kernel(F f, Access access, std::int64_t packs, Out* y,
                                      const In*... x) {
  for (std::int64_t i = grid_index(); i < packs; i += grid_size()) {
    Pack<Out, V> result{};
    if (access == Access::read_write) result = load_pack<V>(y + i * V);
    [&](const Pack<In, V>&... in) {
      for (int k = 0; k < V; ++k) result.value[k] = f(result.value[k], in.value[k]...);
    }(load_pack<V>(x + i * V)...);
    store_pack(y + i * V, result);
  }
}

template <class F, class Out, std::size_t... K, class... In>
NYSTROM_DEVICE Out apply_at(F f, Out before, std::index_sequence<K...>, const std::int64_t* offset,
                            const In*... x) {
  return f(before, x[offset[K + 1]]...);
}

/// Index has 32 bits if the number of elements permits it, because GPUs divide 64-bit numbers
/// slowly.
template <class Index, class F, class Out, class... In>
__global__ void map_strided_kernel(F f, Access access, Strides<1 + sizeof...(In)> strides,
                                   Index count, Out* y, const In*... x) {
  for (std::int64_t i = grid_index(); i < static_cast<std::int64_t>(count); i += grid_size()) {
    std::int64_t offset[1 + sizeof...(In)];
    offsets_of(strides, static_cast<Index>(i), offset);
    const Out before = access == Access::read_write ? y[offset[0]] : Out{};
    y[offset[0]] = apply_at(f, before, std::index_sequence_for<In...>{}, offset, x...);
  }
}

template <int V, class F, class Out, class... In>
bool map_packs(F f, Access access, std::int64_t count, Out* y, const In*... x) {
  const auto aligned = [](const void* p, std::size_t size) {
    const std::size_t unit = size * V < 16 ? size * V : 16;
    return reinterpret_cast<std::uintptr_t>(p) % unit == 0;
  };
  if (count % V != 0 || !aligned(y, sizeof(Out)) || !(aligned(x, sizeof(In)) && ...)) return false;
  launch(map_contiguous_kernel<V, F, Out, In...>, dim3(blocks_for(count / V, 256)), dim3(256), 0, f,
         access, count / V, y, x...);
  return true;
}

template <class Out, class... In, class F, class... Views>
void map_strided(F f, Access access, const View& y, const Views&... x) {
  const std::int64_t count = y.numel();
  if (count == 0) return;
  const ViewBase views[] = {y, broadcast_view(x, y)...};
  const auto strides = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return Strides<sizeof...(I)>({&views[I]...});
  }
  (std::make_index_sequence<1 + sizeof...(In)>());
  if (is_contiguous(strides)) {
    constexpr bool narrow = sizeof(Out) == 2 || ((sizeof(In) == 2) || ...);
    if (map_packs < narrow ? 8 : 4 > (f, access, count, y.as<Out>(), x.template as<In>()...))
      return;
    map_packs<1>(f, access, count, y.as<Out>(), x.template as<In>()...);
    return;
  }
  const dim3 grid(blocks_for(count, 256));
  if (count < (std::int64_t{1} << 31)) {
    launch(map_strided_kernel<std::uint32_t, F, Out, In...>, grid, dim3(256), 0, f, access, strides,
           static_cast<std::uint32_t>(count), y.as<Out>(), x.template as<In>()...);
  } else {
    launch(map_strided_kernel<std::int64_t, F, Out, In...>, grid, dim3(256), 0, f, access, strides,
           count, y.as<Out>(), x.template as<In>()...);
  }
}

// ---- The functions ------------------------------------------------------------------------------

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
    return visit_integer(
        x.dtype, [&]<class T>(TypeTag<T>) { map_strided<T, T>(Move{}, Access::write, y, x); });
  }
  visit_any_float(x.dtype, [&](auto from) {
    visit_any_float(y.dtype, [&]<class To>(TypeTag<To>) {
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
  visit_any_float(y.dtype, [&]<class T>(TypeTag<T>) {
    map_strided<T, T, T>(Combine{op}, Access::write, y, a, b);
  });
}

void affine(CView x, double scale, double shift, View y) {
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    map_strided<T, T>(ScaleAndShift{scale, shift}, Access::write, y, x);
  });
}

}  // namespace nystrom::kernels::cuda
