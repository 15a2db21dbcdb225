// The fused form of nystrom_attention. Layers ask for it on GPUs (SelfAttention::project).
#pragma once

#include "autograd/ops.h"

namespace nystrom {

/// nystrom_attention of inputs that it has checked, with qkv and the iterative inverse.
Var fused_nystrom_attention(const NystromInputs& inputs, const NystromOptions& options);

/// The precision of the products that make landmarks of `dtype`: no coarser than their rounding.
inline Precision landmark_precision(DType dtype) {
  return is_half(dtype) ? Precision::tf32 : Precision::full;
}

}  // namespace nystrom
