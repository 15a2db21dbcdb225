// Instructions of the tensor cores (sm_80 and newer), wrapped: the only inline PTX. (The tests' emulator has its own version of this file.)
//
// Fragments of m16n8k16, in a warp whose lane is 4 g + t: register i of the 16 × 16 operand A holds row g + 8 (i odd), columns 2t, 2t + 1
// (+ 8 for i ≥ 2); register i of the 16 × 8 operand B holds rows 2t, 2t + 1 (+ 8 i) of column g; numbers 0, 1 of the result C stand in row
// g, columns 2t, 2t + 1, numbers 2, 3 in row g + 8. (PTX ISA, "Matrix Fragments for mma.m16n8k16".)
#pragma once

#include "core/cuda/device.cuh"

namespace nystrom::cuda {

/// Two floats rounded to bf16, `low` in the lower half.
NYSTROM_DEVICE std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// c += a b in f32.
NYSTROM_DEVICE void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 × 8 matrices of bf16 from shared memory: lane i points at row i % 8 of matrix i / 8; register j holds row g, columns 2t, 2t + 1
/// of matrix j.
NYSTROM_DEVICE void load_matrices(std::uint32_t (&r)[4], const bf16* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
/// The same, each matrix transposed: register j holds rows 2t, 2t + 1 of column g.
NYSTROM_DEVICE void load_matrices_transposed(std::uint32_t (&r)[4], const bf16* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

}  // namespace nystrom::cuda
