#include "core/dispatch.h"

#ifdef NYSTROM_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>

#include "core/base/fields.h"
#include "core/check.h"

namespace nystrom {
namespace {

#ifdef NYSTROM_X86
/// Whether the processor multiplies tiles of bf16 numbers, and Linux lets this process: tiles are
/// too large for every thread's state to be saved unasked.
bool amx_permitted() {
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;  // of leaf 7's EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & amx_bf16) || !(d & amx_tile)) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // of <asm/prctl.h>, Linux 5.16
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

CpuLevel detect() {
#ifdef NYSTROM_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) {
    if (!__builtin_cpu_supports("avx512bf16")) return CpuLevel::avx512;
    return amx_permitted() ? CpuLevel::amx : CpuLevel::avx512_bf16;
  }
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

const char* name_of(CpuLevel level) { return enum_name(level); }

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

void throw_strided(const char* kernel, const ViewBase& view) {
  throw Error(
      fmt::format("{}: reads its arguments in order, but one of shape [{}] has the strides "
                  "[{}]",
                  kernel, fmt::join(view.shape, view.shape + view.rank, ", "),
                  fmt::join(view.stride, view.stride + view.rank, ", ")));
}

void throw_undefined(const char* kernel) {
  throw Error(fmt::format("{}: got an undefined tensor", kernel));
}

void throw_f16_on_cpu(const char* kernel) {
  throw Error(fmt::format(
      "{}: the CPU converts f16, but does not compute in it; cast to bf16 or f32", kernel));
}

}  // namespace detail
}  // namespace nystrom
