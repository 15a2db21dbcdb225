// Dispatch of kernel calls: by the first argument's device and, on the CPU, by the machine's vector
// level.
//
// CMakeLists.txt lists the files under core/cpu/ with vector code. They are compiled once for each
// level, each time into another namespace (NYSTROM_LEVEL). The choice is made at run time. So one
// binary runs on every x86-64 CPU and uses AVX-512 where it exists.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "core/cuda/runtime.h"
#include "core/view.h"

namespace nystrom {

/// The vector instruction sets of CPU kernels, in rising order. avx512_bf16 and amx are avx512
/// with products of bf16 numbers, in vectors and in tiles; kernels that have these ask for them.
enum class CpuLevel { baseline, avx2, avx512, avx512_bf16, amx };
/// The highest level.
inline constexpr CpuLevel best_cpu_level = CpuLevel::amx;

/// The level in use: the best of this machine, unless limit_cpu_level lowered it.
CpuLevel cpu_level();
/// The name of a level.
const char* name_of(CpuLevel level);
/// Uses at most `level` from now on, if machines with different processors compute together or if
/// levels are compared. Must not be called while other threads run kernels.
void limit_cpu_level(CpuLevel level);

/// One call of a kernel, for observers. Views are those of the call in order; views without data
/// are absent ones.
struct KernelCall {
  const char* name;
  std::vector<CView> views;
};
/// A function that is called before (`begin`) and after every kernel.
using KernelObserver = void (*)(const KernelCall& call, bool begin);
/// Sets the observer, for profiles and tests; null, the default, disables it.
void set_kernel_observer(KernelObserver observer);

/// Throws an InputError unless `device` can compute a model in `dtype`. The message names an
/// alternative. f16 needs a GPU; bf16 on a GPU needs compute capability 8.0.
void require_computable(DType dtype, Device device);

namespace detail {

extern KernelObserver kernel_observer;
[[noreturn]] void throw_other_device(const char* kernel, Device expected, Device got);
[[noreturn]] void throw_no_cuda(const char* kernel);
[[noreturn]] void throw_f16_on_cpu(const char* kernel);
[[noreturn]] void throw_strided(const char* kernel, const ViewBase& view);
[[noreturn]] void throw_undefined(const char* kernel);

template <class T>
void add_argument(KernelCall& call, const T& argument) {
  if constexpr (std::is_convertible_v<T, CView>) call.views.push_back(argument);
}

/// Calls the kernel observer around a kernel.
class ObservedCall {
 public:
  template <class... Args>
  explicit ObservedCall(const char* kernel, const Args&... args) {
    if (!kernel_observer) return;
    call_.emplace(KernelCall{kernel, {}});
    (add_argument(*call_, args), ...);
    kernel_observer(*call_, true);
  }
  ~ObservedCall() {
    if (call_ && kernel_observer) kernel_observer(*call_, false);
  }
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

 private:
  std::optional<KernelCall> call_;
};

/// Throws for tensors on another device.
template <class T>
void check_device(const char* kernel, Device expected, const T& argument) {
  if constexpr (std::is_base_of_v<ViewBase, T>) {
    if (argument.data && !(argument.device == expected))
      throw_other_device(kernel, expected, argument.device);
  } else if constexpr (requires { argument.bounds; }) {
    check_device(kernel, expected, argument.bounds);
  }
}

/// Throws for strided arguments of a kernel that reads them in order.
template <class T>
void check_layout(const char* kernel, const T& argument) {
  if constexpr (std::is_base_of_v<ViewBase, T>) {
    if (argument.data && !argument.is_contiguous()) throw_strided(kernel, argument);
  }
}

/// Throws for f16 arguments, which CPU kernels cannot compute with.
template <class T>
void refuse_f16(const char* kernel, const T& argument) {
  if constexpr (requires { argument.data; }) {
    if (argument.data && argument.dtype == DType::f16) throw_f16_on_cpu(kernel);
  }
}

template <class First, class... Rest>
Device device_of_first_view(const char* kernel, const First& first, const Rest&... rest) {
  if constexpr (std::is_base_of_v<ViewBase, First>) {
    if (!first.data && first.numel() > 0) throw_undefined(kernel);
    return first.device;
  } else {
    return device_of_first_view(kernel, rest...);
  }
}

}  // namespace detail

/// A callable kernel of the backend contract. `cuda` is a weak reference, which is null in programs
/// without nystrom_cuda.
template <class Signature>
struct Kernel;

template <class... Args>
struct Kernel<void(Args...)> {
  using Function = void (*)(Args...);
  const char* name;
  Function baseline, avx2, avx512, cuda;
  bool converts = false;  ///< the CPU's code accepts f16 too
  bool strided = false;   ///< some argument may have any strides

  /// Calls the kernel on the first view's device; a planned GPU computes nothing. Throws when the
  /// first view is undefined, when another one is on another device or strided where none may be,
  /// and when the kernel does not exist there.
  void operator()(Args... args) const {
    const Device device = detail::device_of_first_view(name, args...);
    (detail::check_device(name, device, args), ...);
    if (!strided) (detail::check_layout(name, args), ...);
    detail::ObservedCall observed(name, args...);
    if (device.is_planned()) return;
    if (!device.is_cpu()) {
      if (!cuda) detail::throw_no_cuda(name);
      const nystrom::cuda::Range range(name);
      return cuda(args...);
    }
    if (!converts) (detail::refuse_f16(name, args), ...);
    switch (cpu_level()) {
      case CpuLevel::amx:
      case CpuLevel::avx512_bf16:
      case CpuLevel::avx512: return avx512(args...);
      case CpuLevel::avx2: return avx2(args...);
      case CpuLevel::baseline: return baseline(args...);
    }
  }
};

}  // namespace nystrom

// A program that nystrom_cuda is not linked into has none of CUDA's kernels; one that it is linked
// into has all: core/cuda/required_kernels.cpp refers to them.
#ifdef NYSTROM_CUDA_KERNELS_REQUIRED
#define CUDA_KERNEL(name, ...) \
  void name(__VA_ARGS__);      \
  [[gnu::used]] static void (*const required_##name)(__VA_ARGS__) = &name;
#else
#define CUDA_KERNEL(name, ...) [[gnu::weak]] void name(__VA_ARGS__);
#endif
/// Declares kernel `name` with definitions in the namespaces of three levels, some of which may be
/// the same.
#define KERNEL_OF_LEVELS(baseline, avx2, avx512, name, converts, strided, ...)         \
  namespace baseline {                                                                 \
  void name(__VA_ARGS__);                                                              \
  }                                                                                    \
  namespace avx2 {                                                                     \
  void name(__VA_ARGS__);                                                              \
  }                                                                                    \
  namespace avx512 {                                                                   \
  void name(__VA_ARGS__);                                                              \
  }                                                                                    \
  namespace cuda {                                                                     \
  CUDA_KERNEL(name, __VA_ARGS__)                                                       \
  }                                                                                    \
  inline constexpr Kernel<void(__VA_ARGS__)> name {                                    \
#name, &baseline::name, &avx2::name, &avx512::name, &cuda::name, converts, strided \
  }
#ifdef NYSTROM_X86
#define VECTOR_KERNEL(...) KERNEL_OF_LEVELS(cpu_baseline, cpu_avx2, cpu_avx512, __VA_ARGS__)
#else
#define VECTOR_KERNEL(...) KERNEL_OF_LEVELS(cpu_baseline, cpu_baseline, cpu_baseline, __VA_ARGS__)
#endif
/// Declares kernel `name` with vector code: one definition for each CPU level and one for CUDA. A
/// missing CPU definition is a link error that names it. Its arguments are contiguous.
#define KERNEL(name, ...) VECTOR_KERNEL(name, false, false, __VA_ARGS__)
/// The same for a kernel with strided arguments.
#define STRIDED_KERNEL(name, ...) VECTOR_KERNEL(name, false, true, __VA_ARGS__)
/// The same for a kernel that only moves or converts numbers. On the CPU it accepts f16 too.
#define CONVERTING_KERNEL(name, ...) VECTOR_KERNEL(name, true, true, __VA_ARGS__)

/// Declares kernel `name` as a call into a library (oneDNN, Eigen) that selects vector code itself.
/// There is one CPU definition.
#define LIBRARY_KERNEL(name, ...) KERNEL_OF_LEVELS(cpu, cpu, cpu, name, false, true, __VA_ARGS__)
