// Controls of the emulator for tests.
#pragma once

namespace nystrom::emulation {

/// The order in which the threads of a block run. A result that depends on it has a race.
enum class Order { forward, backward };
void set_order(Order order);

/// The emulated GPU: its compute capability, such as 90 for 9.0, and the maximum bytes of shared
/// memory in a block.
struct Gpu {
  int capability, shared_memory;
};
inline constexpr Gpu hopper{90, 227 << 10}, turing{75, 64 << 10};
void set_gpu(Gpu gpu);

}  // namespace nystrom::emulation
