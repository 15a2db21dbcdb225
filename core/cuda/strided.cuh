// y[i] = f(y[i], x[i]…) over strided views of equal or broadcast shapes.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/strides.h"

namespace nystrom::cuda {

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

}  // namespace nystrom::cuda
