// Devices that hold tensors.
#pragma once

#include <string>

namespace nystrom {

/// A CPU, a GPU, or a planned GPU: one that is not there. Tensors on a planned GPU have shapes and
/// addresses but no memory. Kernels on it do nothing, and observers see their arguments
/// (core/dispatch.h). Copies to the CPU give zeros.
struct Device {
  enum class Kind : unsigned char { cpu, cuda, planned };
  Kind kind = Kind::cpu;
  int index = 0;

  /// Whether this is the CPU.
  bool is_cpu() const { return kind == Kind::cpu; }
  /// Whether this is a planned GPU.
  bool is_planned() const { return kind == Kind::planned; }
  /// "cpu", "cuda:0" and so on, or "planned".
  std::string name() const {
    return is_cpu() ? "cpu" : is_planned() ? "planned" : "cuda:" + std::to_string(index);
  }
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu_device{};

/// The device called "cpu", "cuda" or "cuda:N". "cuda" without a number is GPU `default_gpu`.
/// Throws an InputError for another name, and for a GPU that cannot be used.
Device device_called(const std::string& name, int default_gpu = 0);

}  // namespace nystrom
