// Replaces core/cuda/ in programs without CUDA.
#include "core/base/error.h"
#include "core/cuda/runtime.h"

namespace nystrom::cuda {
namespace {

[[noreturn]] void fail() {
  throw InputError(
      "this build of nystrom has no CUDA support; use --device cpu, or build with: ./dev build "
      "--cuda");
}

}  // namespace

bool built_in() { return false; }
CudnnState cudnn_state() { return {false, "not in this build", ""}; }

void* device_allocate(int, std::int64_t) { fail(); }
void device_free(int, void*) { fail(); }
void copy_to_device(int, void*, const void*, std::int64_t) { fail(); }
void copy_to_host(int, void*, const void*, std::int64_t) { fail(); }
std::int64_t launches() { return 0; }
void synchronize(int) { fail(); }
int device_count() { return 0; }
SlowProducts slow_products() { return {}; }
std::vector<Product> products() { return {}; }
void time_products() { fail(); }
void require_device(int) { fail(); }
int compute_capability(int) { fail(); }
Range::Range(const char*) {}
Range::~Range() = default;
Event::Event(int) { fail(); }
Event::~Event() = default;

}  // namespace nystrom::cuda
