// Threads of a block run as fibers of one CPU thread, and blocks run one after another. A fiber
// runs until it waits at a barrier; threads that never wait share one fiber.

// The checked longjmp of _FORTIFY_SOURCE would report a jump to another stack as an error.
#undef _FORTIFY_SOURCE
#include <cuda_runtime.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/cuda_emulation/emulation.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace nystrom::emulation {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;
constexpr std::size_t slot_bytes = 64;

Order order = Order::forward;
Gpu gpu = hopper;

struct Barrier {
  int arrived = 0, expected = 0;
  unsigned generation = 0;
};

struct Warp {
  Barrier barrier;
  alignas(16) unsigned char slots[2][warp_size * slot_bytes];
};

/// The position at which a fiber continues. Unlike swapcontext, _setjmp and _longjmp make no system
/// call.
using Place = jmp_buf;

struct Fiber {
  Place place;
  bool begun = false;
  std::unique_ptr<unsigned char[]> stack = std::make_unique<unsigned char[]>(stack_bytes);
  int thread = -1;  ///< the thread that runs on this fiber
};

/// A block while it runs.
class Block {
 public:
  Block(dim3 size, const std::function<void()>& thread)
      : size_(size), count_(static_cast<int>(size.x * size.y * size.z)), thread_(thread) {
    if (count_ % warp_size != 0)
      throw std::logic_error("emulation: a block of " + std::to_string(count_) +
                             " threads is no whole number of warps");
    warps_.resize(static_cast<std::size_t>(count_ / warp_size));
    for (Warp& warp : warps_) warp.barrier.expected = warp_size;
    block_.expected = count_;
    exchanges_.assign(static_cast<std::size_t>(count_), 0);
  }

  void run();
  void wait(Barrier& barrier);
  Barrier& block_barrier() { return block_; }
  Warp& warp() { return warps_[static_cast<std::size_t>(current_->thread / warp_size)]; }
  int lane() const { return current_->thread % warp_size; }
  /// The slot of this thread's next exchange, one of two. A thread that is one exchange ahead must
  /// not overwrite data that others still read.
  int next_slot() { return exchanges_[static_cast<std::size_t>(current_->thread)]++ & 1; }

 private:
  static void live();
  void work();
  void resume(Fiber& fiber);
  void leave(Fiber& fiber);
  int thread_at(int turn) const { return order == Order::forward ? turn : count_ - 1 - turn; }
  void finish(int thread);

  dim3 size_;
  int count_;
  const std::function<void()>& thread_;
  std::vector<Warp> warps_;
  std::vector<unsigned> exchanges_;
  Barrier block_;
  Place scheduler_;
  std::vector<std::unique_ptr<Fiber>> waiting_;
  std::unique_ptr<Fiber> starting_;
  Fiber* current_ = nullptr;
  int started_ = 0;
  bool progress_ = false;
  std::exception_ptr error_;
};

Block* running = nullptr;
std::vector<std::unique_ptr<Fiber>> pool;

/// The kernel that runs.
struct Running {
  std::uint64_t block = 0;  ///< counts all blocks
  std::size_t allowed = 0, dynamic = 0, used_statically = 0;
  int launch_bounds = 1024;
};
Running now;
// Of the exact size asked for: the address sanitizer finds what lies beyond.
std::unique_ptr<unsigned char[]> dynamic_memory;
std::size_t dynamic_bytes = 0;
std::unordered_map<const void*, KernelResources> resources;

std::unique_ptr<Fiber> take_fiber() {
  if (pool.empty()) return std::make_unique<Fiber>();
  auto fiber = std::move(pool.back());
  pool.pop_back();
  return fiber;
}

/// The main loop of a fiber over all its blocks.
void Block::live() {
  for (;;) running->work();
}

/// Runs threads of a block that have not started yet, until one of them waits. The fiber then
/// belongs to that thread alone.
void Block::work() {
  Fiber* self = current_;
  while (started_ < count_) {
    self->thread = thread_at(started_++);
    const auto flat = static_cast<unsigned>(self->thread);
    threadIdx = {flat % size_.x, flat / size_.x % size_.y, flat / size_.x / size_.y};
    const int mine = self->thread;
    try {
      thread_();
    } catch (...) {
      error_ = std::current_exception();
    }
    finish(mine);
    if (self != starting_.get()) break;
  }
  self->thread = -1;
  leave(*self);
}

/// Removes a finished thread from the barriers.
void Block::finish(int thread) {
  progress_ = true;
  const auto miss = [](Barrier& barrier) {
    if (--barrier.expected == barrier.arrived && barrier.arrived > 0) {
      barrier.arrived = 0;
      ++barrier.generation;
    }
  };
  miss(block_);
  miss(warps_[static_cast<std::size_t>(thread / warp_size)].barrier);
}

void Block::wait(Barrier& barrier) {
  const unsigned generation = barrier.generation;
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    progress_ = true;
    return;
  }
  Fiber* self = current_;
  const uint3 saved = threadIdx;
  do {
    leave(*self);
  } while (barrier.generation == generation);
  progress_ = true;
  threadIdx = saved;
}

void Block::resume(Fiber& fiber) {
  current_ = &fiber;
  if (_setjmp(scheduler_) != 0) return;
  if (fiber.begun) _longjmp(fiber.place, 1);
  fiber.begun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack = {fiber.stack.get(), 0, stack_bytes};
  context.uc_link = nullptr;
  makecontext(&context, &Block::live, 0);
  setcontext(&context);
  std::abort();  // setcontext returns only on failure
}

/// Returns to the scheduler.
void Block::leave(Fiber& fiber) {
  if (_setjmp(fiber.place) == 0) _longjmp(scheduler_, 1);
}

void Block::run() {
  running = this;
  while (started_ < count_ && !error_) {
    starting_ = take_fiber();
    resume(*starting_);
    (starting_->thread < 0 ? pool : waiting_).push_back(std::move(starting_));
  }
  while (!waiting_.empty() && !error_) {
    progress_ = false;
    std::vector<std::unique_ptr<Fiber>> still;
    for (auto& fiber : waiting_) {
      resume(*fiber);
      (fiber->thread < 0 ? pool : still).push_back(std::move(fiber));
    }
    waiting_ = std::move(still);
    if (!progress_ && !waiting_.empty()) {
      error_ = std::make_exception_ptr(
          std::logic_error("emulation: threads of a block wait at different barriers"));
    }
  }
  // After an error the waiting fibers are abandoned, and the objects on their stacks leak.
  running = nullptr;
  if (error_) std::rethrow_exception(error_);
}

}  // namespace

void set_order(Order wanted) {
  finish_all();
  order = wanted;
}
void set_gpu(Gpu wanted) {
  finish_all();
  gpu = wanted;
}
int compute_capability() { return gpu.capability; }
int shared_memory_of_a_block() { return gpu.shared_memory; }

void block_barrier() { running->wait(running->block_barrier()); }
void warp_barrier() { running->wait(running->warp().barrier); }
int lane() { return running->lane(); }
void* dynamic_shared_memory() { return dynamic_memory.get(); }
KernelResources& resources_of(const void* kernel) { return resources[kernel]; }

void* shared_memory_of(SharedVariable& variable) {
  if (variable.block != now.block) {
    variable.block = now.block;
    if (!variable.memory) variable.memory = std::make_unique<unsigned char[]>(variable.bytes);
    std::memset(variable.memory.get(), 0xff, variable.bytes);
    now.used_statically += variable.bytes;
    if (now.dynamic + now.used_statically > now.allowed)
      throw std::logic_error("emulation: a block uses " + std::to_string(now.used_statically) +
                             " bytes of static and " + std::to_string(now.dynamic) +
                             " of dynamic shared memory; it may use " +
                             std::to_string(now.allowed));
  }
  return variable.memory.get();
}

void require_launch_bounds(int threads, int) {
  now.launch_bounds = threads;
  if (static_cast<int>(blockDim.x * blockDim.y * blockDim.z) > threads)
    throw std::logic_error("emulation: a block of more threads than its kernel's launch bounds, " +
                           std::to_string(threads));
}

const unsigned char* exchange(const void* mine, std::size_t size) {
  Warp& warp = running->warp();
  unsigned char* slots = warp.slots[running->next_slot()];
  std::memcpy(slots + static_cast<std::size_t>(lane()) * slot_bytes, mine, size);
  running->wait(warp.barrier);
  return slots;
}

void run_grid(const Launch& launch) {
  KernelResources& kernel = resources[launch.kernel];
  gridDim = launch.grid;
  blockDim = launch.block;
  if (dynamic_bytes != launch.shared) {
    dynamic_bytes = launch.shared;
    dynamic_memory = std::make_unique<unsigned char[]>(dynamic_bytes);
  }
  now.dynamic = launch.shared;
  now.launch_bounds = 1024;
  now.allowed = static_cast<std::size_t>(gpu.shared_memory);
  for (unsigned z = 0; z < gridDim.z; ++z) {
    for (unsigned y = 0; y < gridDim.y; ++y) {
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        ++now.block;
        now.used_statically = 0;
        // NaN bytes reveal reads before writes.
        std::memset(dynamic_memory.get(), 0xff, dynamic_bytes);
        Block(blockDim, launch.thread).run();
        kernel.static_shared = std::max(kernel.static_shared, now.used_statically);
        kernel.launch_bounds = now.launch_bounds;
      }
    }
  }
}

}  // namespace nystrom::emulation
