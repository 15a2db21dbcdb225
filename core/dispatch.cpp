#include "core/dispatch.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {
namespace {

CpuLevel detect() {
#ifdef NYSTROM_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512)
    return __builtin_cpu_supports("avx512bf16") ? CpuLevel::avx512_bf16 : CpuLevel::avx512;
  if (avx2) return CpuLevel::avx2;
#endif
  return CpuLevel::baseline;
}

CpuLevel& level_in_use() {
  static CpuLevel level = detect();
  return level;
}

}  // namespace

CpuLevel cpu_level() { return level_in_use(); }

const char* name_of(CpuLevel level) {
  switch (level) {
    case CpuLevel::baseline: return "baseline";
    case CpuLevel::avx2: return "avx2";
    case CpuLevel::avx512: return "avx512";
    case CpuLevel::avx512_bf16: return "avx512_bf16";
  }
  return "?";
}

void limit_cpu_level(CpuLevel level) { level_in_use() = std::min(level, detect()); }

void set_kernel_observer(KernelObserver observer) { detail::kernel_observer = observer; }

void require_computable(DType dtype, Device device) {
  if (device.is_cpu()) {
    require_input(dtype != DType::f16,
                  "f16 is computed only on GPUs; use bf16 or f32, or --device cuda");
  } else if (dtype == DType::bf16 && !device.is_planned()) {
    const int capability = cuda::compute_capability(device.index);
    require_input(capability >= 80,
                  "{} is of compute capability {}.{}, bf16 needs 8.0 or newer; use f16 or f32",
                  device.name(), capability / 10, capability % 10);
  }
}

namespace detail {

KernelObserver kernel_observer = nullptr;

void throw_other_device(const char* kernel, Device expected, Device got) {
  throw Error(fmt::format("{}: all arguments must live on one device; got {}, expected {}", kernel,
                          got.name(), expected.name()));
}

void throw_no_cuda(const char* kernel) {
  throw InputError(
      fmt::format("{}: this build of nystrom has no CUDA support; use --device cpu, or build with: "
                  "./dev build --cuda",
                  kernel));
}

void throw_f16_on_cpu(const char* kernel) {
  throw Error(fmt::format(
      "{}: the CPU converts f16, but does not compute in it; cast to bf16 or f32", kernel));
}

}  // namespace detail
}  // namespace nystrom
