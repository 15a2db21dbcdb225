// Wrappers of tensor core instructions. (The tests' emulator has its own version of this file.)
// sm_80 and newer have all of them. sm_75 has only those for f16 (tensor_cores_take()), with half
// the depth; others end the kernel with an error.
//
// Fragments of m16n8k16, in a warp with lane 4 g + t:
// - A, 16 × 16: register i holds row g + 8 (i odd), columns 2t, 2t + 1 (+ 8 for i ≥ 2).
// - B, 16 × 8: register i holds rows 2t, 2t + 1 (+ 8 i) of column g.
// - C: numbers 0, 1 are row g, columns 2t, 2t + 1; numbers 2, 3 are the same in row g + 8.
// (PTX ISA, "Matrix Fragments for mma.m16n8k16".) m16n8k8 of the same types takes registers 0 and 1
// of A and 0 of B for the first 8 of the depth, the others for the rest. For m16n8k8 in TF32,
// register i of A holds row g + 8 (i odd), column t (+ 4 for i ≥ 2). Register i of B holds row t +
// 4 i of column g; C is as before.
#pragma once

#include "core/cuda/device.cuh"

namespace nystrom::cuda {

/// Two floats rounded to T (bf16 or f16), `low` in the lower half.
template <class T>
NYSTROM_DEVICE std::uint32_t pack(float low, float high) {
#if __CUDA_ARCH__ >= 800
  std::uint32_t packed;
  if constexpr (std::is_same_v<T, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
#else
  return T(low).bits | static_cast<std::uint32_t>(T(high).bits) << 16;
#endif
}

/// c += a b in f32, of operands in T (bf16 or f16).
template <class T>
NYSTROM_DEVICE void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                        std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  if constexpr (std::is_same_v<T, bf16>) {
    __trap();
  } else {
    const auto half_as_deep = [](float(&sum)[4], std::uint32_t a0, std::uint32_t a1,
                                 std::uint32_t b) {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, "
          "%1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a0), "r"(a1), "r"(b));
    };
    half_as_deep(c, a[0], a[1], b0);
    half_as_deep(c, a[2], a[3], b1);
  }
#endif
}

/// A float as the sum of two TF32 numbers of 11 bits each, exact except for at most one bit. The
/// first is rounded, so that the omitted product of both seconds has either sign. The instruction
/// truncates the second.
struct Tf32Parts {
  std::uint32_t high, low;
};
NYSTROM_DEVICE Tf32Parts split_tf32(float x) {
  const std::uint32_t high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  return {high, __float_as_uint(x - __uint_as_float(high))};
}

/// c += a b in f32, of operands in TF32.
NYSTROM_DEVICE void mma_tf32(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}

/// Four 8 × 8 matrices of 16-bit numbers from shared memory. Lane i points to row i % 8 of matrix i
/// / 8. Register j holds row g, columns 2t, 2t + 1 of matrix j.
NYSTROM_DEVICE void load_matrices(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
/// The same with each matrix transposed: register j holds rows 2t, 2t + 1 of column g.
NYSTROM_DEVICE void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// Copies 16 bytes to shared memory, or zeros unless `keep`. They arrive at wait_copies(); before
/// sm_80 at once.
NYSTROM_DEVICE void copy_async(void* shared, const void* source, bool keep) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(source), "r"(keep ? 16 : 0)
               : "memory");
#else
  Pack<std::uint32_t, 4> words{};
  if (keep) words = *static_cast<const Pack<std::uint32_t, 4>*>(source);
  *static_cast<Pack<std::uint32_t, 4>*>(shared) = words;
#endif
}
/// Ends a group of copies.
NYSTROM_DEVICE void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits for this thread's copies, except for those of the last `Pending` groups.
template <int Pending>
NYSTROM_DEVICE void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace nystrom::cuda
