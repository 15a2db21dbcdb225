// The checksum of every file and tensor that is kept: XXH3-128.
#pragma once

#include <cstddef>
#include <string>

namespace nystrom {

/// XXH3-128 of what was fed in, piece by piece.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void update(const void* data, std::size_t bytes);
  /// 32 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  State* state_;
};

}  // namespace nystrom
