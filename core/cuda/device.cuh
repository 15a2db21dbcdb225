// Common device code: conversions, wide loads, sums over warps and blocks.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

#define NYSTROM_DEVICE __device__ __forceinline__
/// Placed before loops over arrays that must stay in registers, and before loops whose loads should
/// be in flight together.
#ifdef __CUDACC__
#define NYSTROM_UNROLL _Pragma("unroll")
#define NYSTROM_UNROLL_4 _Pragma("unroll 4")
#define NYSTROM_UNROLL_1 _Pragma("unroll 1")
#else
#define NYSTROM_UNROLL
#define NYSTROM_UNROLL_4
#define NYSTROM_UNROLL_1
#endif

namespace nystrom::cuda {

inline constexpr int warp_size = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

template <class T>
NYSTROM_DEVICE accumulate_t<T> load(T x) {
  return static_cast<accumulate_t<T>>(x);
}

template <class To, class From>
NYSTROM_DEVICE To convert(From x) {
  if constexpr (sizeof(To) == 2) {
    return To(static_cast<float>(x));
  } else if constexpr (sizeof(From) == 2) {
    return static_cast<To>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

/// N neighbours, read and written 16 bytes at a time.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T value[N];
};

template <int N, class T>
NYSTROM_DEVICE Pack<T, N> load_pack(const T* source) {
  return *reinterpret_cast<const Pack<T, N>*>(source);
}
template <class T, int N>
NYSTROM_DEVICE void store_pack(T* target, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(target) = pack;
}

/// Numbers of type A, or of bf16 or f16 that are read and written as A, for operands whose types
/// may differ within one accumulate type.
template <class A, bool Constant>
struct Mixed {
  std::conditional_t<Constant, const void*, void*> data;
  DType dtype;

  NYSTROM_DEVICE A get(std::int64_t at) const {
    switch (dtype) {
      case DType::bf16: return static_cast<A>(load(static_cast<const bf16*>(data)[at]));
      case DType::f16: return static_cast<A>(load(static_cast<const f16*>(data)[at]));
      default: return static_cast<const A*>(data)[at];
    }
  }
  NYSTROM_DEVICE void set(std::int64_t at, A value) const {
    switch (dtype) {
      case DType::bf16: static_cast<bf16*>(data)[at] = convert<bf16>(value); break;
      case DType::f16: static_cast<f16*>(data)[at] = convert<f16>(value); break;
      default: static_cast<A*>(data)[at] = value;
    }
  }
  /// Writes V neighbours. The address is a multiple of theirs.
  template <int V>
  NYSTROM_DEVICE void set_pack(std::int64_t at, const Pack<A, V>& values) const {
    switch (dtype) {
      case DType::bf16: return set_pack_as(static_cast<bf16*>(data) + at, values);
      case DType::f16: return set_pack_as(static_cast<f16*>(data) + at, values);
      default: return set_pack_as(static_cast<A*>(data) + at, values);
    }
  }

 private:
  template <class T, int V>
  NYSTROM_DEVICE static void set_pack_as(T* target, const Pack<A, V>& values) {
    Pack<T, V> pack;
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i) pack.value[i] = convert<T>(values.value[i]);
    store_pack(target, pack);
  }
};

template <class A>
NYSTROM_DEVICE A larger(A a, A b) {
  return a > b ? a : b;
}

/// The sum over the 32 lanes, with the same bits on each.
template <class A>
NYSTROM_DEVICE A warp_sum(A value) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(whole_warp, value, distance);
  return value;
}
template <class A>
NYSTROM_DEVICE A warp_max(A value) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    value = larger(value, __shfl_xor_sync(whole_warp, value, distance));
  return value;
}

/// Position of this thread in its block, which is one-dimensional.
NYSTROM_DEVICE int lane_index() { return static_cast<int>(threadIdx.x) % warp_size; }
NYSTROM_DEVICE int warp_index() { return static_cast<int>(threadIdx.x) / warp_size; }

/// The sum over all threads of a one-dimensional block of whole warps (at most 1024 threads), on
/// each thread. Every thread must call it.
template <class A>
NYSTROM_DEVICE A block_sum(A value) {
  __shared__ A part[warp_size];
  value = warp_sum(value);
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  __syncthreads();  // all threads have read the last sum
  if (lane_index() == 0) part[warp_index()] = value;
  __syncthreads();
  A sum = 0;
  for (int w = 0; w < warps; ++w) sum += part[w];
  return sum;
}
template <class A>
NYSTROM_DEVICE A block_max(A value) {
  __shared__ A part[warp_size];
  value = warp_max(value);
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  __syncthreads();
  if (lane_index() == 0) part[warp_index()] = value;
  __syncthreads();
  A largest = part[0];
  for (int w = 1; w < warps; ++w) largest = larger(largest, part[w]);
  return largest;
}

/// First index and step of a loop over a one-dimensional grid.
NYSTROM_DEVICE std::int64_t grid_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
NYSTROM_DEVICE std::int64_t grid_size() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace nystrom::cuda
