// What a call of a kernel costs on a GPU, from the shapes of its arguments.
#pragma once

#include "core/dispatch.h"

namespace nystrom {

/// The unit that limits a kernel's arithmetic.
enum class Engine : unsigned char { none, product16, product_tf32, product_f32, tf32x3, tiles16 };

/// The cost of a call of a kernel on a GPU of Hopper's kind. Launches are exact. Bytes are those
/// that must be read and written, each operand once a pass; FLOPs are those of products.
struct KernelCost {
  std::int64_t launches = 1;  ///< of kernels, and calls of libraries that compute
  double bytes = 0;           ///< read and written
  double narrow_bytes = 0;  ///< the part of bytes that threads access fewer than 16 bytes at a time
  bool loads_ahead = false;  ///< tiles load while others are computed
  double flops = 0;          ///< a multiply-add counts as two
  Engine engine = Engine::none;
  double instructions = 0;  ///< of single threads, where arithmetic outside of products dominates
  double serial_loads = 0;  ///< loads from memory that wait for each other
};

/// The cost of `call`, whose operands are aligned. Throws an Error for an unknown kernel.
KernelCost kernel_cost(const KernelCall& call);

}  // namespace nystrom
