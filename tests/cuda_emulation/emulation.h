// What tests ask of the emulator beside running kernels.
#pragma once

namespace nystrom::emulation {

/// In which order the threads of a block get their turns. A result that depends on it is a race.
enum class Order { forward, backward };
void set_order(Order order);

}  // namespace nystrom::emulation
