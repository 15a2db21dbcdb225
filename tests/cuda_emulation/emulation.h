// Controls of the emulator for tests.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// Lets waits for events do nothing, as if their calls were missing: those of streams, or those of
/// the program.
enum class Missing { nothing, stream_waits, program_waits };
void set_missing(Missing waits);

/// Lets whatever waits for the GPU fail from now on, as after a kernel's illegal access.
void break_device();

/// How many streams, events and blocks of memory the program has asked for.
std::int64_t creations();

/// Runs everything that streams hold.
void finish_all();

/// The shared memory of a block that needs no request, in bytes.
inline constexpr std::size_t default_shared_memory = 48 << 10;

/// What a kernel needs, as its blocks so far have shown it, and the dynamic shared memory in bytes
/// that the program has asked for.
struct KernelResources {
  std::size_t static_shared = 0, allowed_dynamic = 0;
  int launch_bounds = 1024;
};
KernelResources& resources_of(const void* kernel);

}  // namespace nystrom::emulation
