#include "core/cuda/event.h"

#include "core/cuda/stream.h"

namespace nystrom::cuda {

Event::Event(int device) {
  check(cudaSetDevice(device), "choosing the GPU");
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  handle_ = event;
  check(cudaEventRecord(event, stream()), "recording an event");
}

Event::~Event() { cudaEventDestroy(static_cast<cudaEvent_t>(handle_)); }

}  // namespace nystrom::cuda
