#include "core/cuda/event.h"

#include <mutex>
#include <vector>

#include "core/cuda/stream.h"

namespace nystrom::cuda {
namespace {

/// Events that no object uses: making one takes longer than recording it.
struct Pool {
  std::mutex mutex;
  std::vector<cudaEvent_t> events;
};

Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

cudaEvent_t take_event() {
  {
    const std::lock_guard lock(pool().mutex);
    if (!pool().events.empty()) {
      const cudaEvent_t event = pool().events.back();
      pool().events.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

}  // namespace

Event::Event(int device) {
  check(cudaSetDevice(device), "choosing the GPU");
  const cudaEvent_t event = take_event();
  handle_ = event;
  check(cudaEventRecord(event, stream()), "recording an event");
}

Event::~Event() {
  const std::lock_guard lock(pool().mutex);
  pool().events.push_back(static_cast<cudaEvent_t>(handle_));
}

}  // namespace nystrom::cuda
