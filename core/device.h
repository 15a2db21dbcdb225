// Where a tensor lives.
#pragma once

#include <string>

namespace nystrom {

struct Device {
  enum class Kind : unsigned char { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  bool is_cpu() const { return kind == Kind::cpu; }
  std::string name() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu_device{};

}  // namespace nystrom
