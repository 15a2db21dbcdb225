// Devices that hold tensors.
#pragma once

#include <string>

namespace nystrom {

/// A CPU or a GPU.
struct Device {
  enum class Kind : unsigned char { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  /// Whether this is the CPU.
  bool is_cpu() const { return kind == Kind::cpu; }
  /// "cpu", or "cuda:0" and so on.
  std::string name() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu_device{};

/// The device called "cpu", "cuda" or "cuda:N". "cuda" without a number is GPU `default_gpu`.
/// Throws an InputError for another name, and for a GPU that cannot be used.
Device device_called(const std::string& name, int default_gpu = 0);

}  // namespace nystrom
