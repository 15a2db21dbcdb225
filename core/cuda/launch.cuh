// Launching of kernels.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>

#include "core/cuda/device.cuh"
#include "core/cuda/stream.h"

namespace nystrom::cuda {

/// More blocks than any GPU runs at once: the limit for kernels with grid-stride loops.
inline constexpr std::int64_t max_blocks = 132 * 16;

/// Runs `kernel` on the stream. `shared` bytes of dynamic shared memory may exceed the default
/// limit of 48 KiB. Throws an Error if the GPU cannot run such a block.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  prepare_launch(reinterpret_cast<const void*>(kernel), block.x * block.y * block.z, shared);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream();
  count_launch();
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
        "kernel launch");
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline unsigned blocks_for(std::int64_t work, std::int64_t per_block) {
  const std::int64_t blocks = divide_up(work, per_block);
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

/// Whether all addresses are multiples of 16 bytes.
inline bool are_aligned(std::initializer_list<const void*> pointers) {
  for (const void* p : pointers)
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  return true;
}

/// Whether every row of a view begins at a multiple of 16 bytes, as wide loads need.
inline bool has_aligned_rows(const CView& x) {
  if (!are_aligned({x.data})) return false;
  for (int axis = 0; axis + 1 < x.rank; ++axis)
    if (x.stride[axis] * size_of(x.dtype) % 16 != 0) return false;
  return true;
}

/// Calls f with the number of neighbours that a thread accesses at once, as a constant: 16 bytes of
/// T if `count` is a multiple of that and the pointers are aligned, else 1.
template <class T, class F>
void with_pack(std::int64_t count, std::initializer_list<const void*> pointers, const F& f) {
  constexpr int wide = 16 / static_cast<int>(sizeof(T));
  count % wide == 0 && are_aligned(pointers) ? f(std::integral_constant<int, wide>{})
                                             : f(std::integral_constant<int, 1>{});
}

/// The kernel's form of a view whose type is A, bf16 or f16.
template <class A>
Mixed<A, true> mixed(const CView& view) {
  return {view.data, view.dtype};
}
template <class A>
Mixed<A, false> mixed(const View& view) {
  return {view.data, view.dtype};
}

}  // namespace nystrom::cuda
