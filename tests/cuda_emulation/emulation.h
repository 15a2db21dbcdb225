// What tests ask of the emulator beside running kernels.
#pragma once

namespace nystrom::emulation {

/// In which order the threads of a block get their turns. A result that depends on it is a race.
enum class Order { forward, backward };
void set_order(Order order);

/// Which GPU is emulated: its compute capability, as 90 for 9.0, and the bytes of shared memory
/// that a block may have.
struct Gpu {
  int capability, shared_memory;
};
inline constexpr Gpu hopper{90, 227 << 10}, turing{75, 64 << 10};
void set_gpu(Gpu gpu);

}  // namespace nystrom::emulation
