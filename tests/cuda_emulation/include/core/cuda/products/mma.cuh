// The emulator's version of core/cuda/products/mma.cuh, found first in the include path. It follows
// the layouts that that file documents.
#pragma once

#include <vector>

#include "core/cuda/device.cuh"

namespace nystrom::cuda {

template <class T>
std::uint32_t pack(float low, float high) {
  return T(low).bits | static_cast<std::uint32_t>(T(high).bits) << 16;
}

namespace emulated {

template <class T>
float half(std::uint32_t packed, int upper) {
  return static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(packed >> 16 * upper)));
}

/// Tensor cores of sm_75 support only f16.
inline void require_sm_80() {
  if (emulation::compute_capability() < 80)
    throw std::logic_error("emulation: an instruction that sm_75 does not have");
}

struct Operands {
  std::uint32_t a[4], b[2];
};

/// The operands of every lane of the warp.
class Exchange {
 public:
  Exchange(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    const Operands mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
    slots_ = emulation::exchange(&mine, sizeof(mine));
  }
  Operands operator()(int lane) const {
    Operands other;
    std::memcpy(&other, slots_ + lane * 64, sizeof(other));
    return other;
  }

 private:
  const unsigned char* slots_;
};

/// Tensor cores truncate sums to f32.
inline float cut(double sum) {
  const auto nearest = static_cast<float>(sum);
  return std::abs(static_cast<double>(nearest)) > std::abs(sum) ? std::nextafter(nearest, 0.0f)
                                                                : nearest;
}

/// The value that the instruction reads from a register.
inline float tf32(std::uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); }

}  // namespace emulated

template <class T>
void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  using emulated::half;
  if constexpr (std::is_same_v<T, bf16>) emulated::require_sm_80();
  const emulated::Exchange of_lane(a, b0, b1);
  const int g = lane_index() / 4, t = lane_index() % 4;
  for (int i = 0; i < 4; ++i) {
    const int column = 2 * t + i % 2;
    double sum = c[i];
    for (int k = 0; k < 16; ++k) {
      const int holder = k % 8 / 2;
      const float x = half<T>(of_lane(4 * g + holder).a[i / 2 + 2 * (k / 8)], k % 2);
      const float y = half<T>(of_lane(4 * column + holder).b[k / 8], k % 2);
      sum += static_cast<double>(x) * y;
    }
    c[i] = emulated::cut(sum);
  }
}

struct Tf32Parts {
  std::uint32_t high, low;
};
inline Tf32Parts split_tf32(float x) {
  const std::uint32_t high = (std::bit_cast<std::uint32_t>(x) + 0x1000u) & 0xffffe000u;
  return {high, std::bit_cast<std::uint32_t>(x - std::bit_cast<float>(high)) & 0xffffe000u};
}

inline void mma_tf32(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                     std::uint32_t b1) {
  emulated::require_sm_80();
  const emulated::Exchange of_lane(a, b0, b1);
  const int g = lane_index() / 4, t = lane_index() % 4;
  for (int i = 0; i < 4; ++i) {
    const int column = 2 * t + i % 2;
    double sum = c[i];
    for (int k = 0; k < 8; ++k) {
      const float x = emulated::tf32(of_lane(4 * g + k % 4).a[i / 2 + 2 * (k / 4)]);
      const float y = emulated::tf32(of_lane(4 * column + k % 4).b[k / 4]);
      sum += static_cast<double>(x) * y;
    }
    c[i] = emulated::cut(sum);
  }
}

namespace emulated {

inline void load_matrices(std::uint32_t (&r)[4], const void* row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    throw std::logic_error("emulation: ldmatrix needs rows aligned to 16 bytes");
  const unsigned char* slots = emulation::exchange(&row, sizeof(row));
  const auto row_of = [&](int lane) {
    const std::uint16_t* pointer;
    std::memcpy(&pointer, slots + lane * 64, sizeof(pointer));
    return pointer;
  };
  const int g = lane_index() / 4, t = lane_index() % 4;
  for (int j = 0; j < 4; ++j) {
    const std::uint16_t first = transposed ? row_of(8 * j + 2 * t)[g] : row_of(8 * j + g)[2 * t];
    const std::uint16_t second =
        transposed ? row_of(8 * j + 2 * t + 1)[g] : row_of(8 * j + g)[2 * t + 1];
    r[j] = first | static_cast<std::uint32_t>(second) << 16;
  }
}

}  // namespace emulated

inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  emulated::load_matrices(r, row, false);
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  emulated::load_matrices(r, row, true);
}

namespace emulated {

struct Copy {
  void* target;
  unsigned char bytes[16];
};
/// The groups of copies that each thread of the block has not waited for; the last one is open.
/// The data arrive when the thread waits, so that a missing wait shows.
inline std::vector<std::vector<Copy>>& copies_of_thread() {
  static std::vector<std::vector<Copy>> of[1024];
  auto& groups = of[threadIdx.x];
  if (groups.empty()) groups.emplace_back();
  return groups;
}

}  // namespace emulated

inline void copy_async(void* shared, const void* source, bool keep) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 ||
      (keep && reinterpret_cast<std::uintptr_t>(source) % 16 != 0))
    throw std::logic_error("emulation: cp.async needs addresses aligned to 16 bytes");
  emulated::Copy copy{shared, {}};
  if (keep) std::memcpy(copy.bytes, source, sizeof(copy.bytes));
  emulated::copies_of_thread().back().push_back(copy);
}
inline void commit_copies() { emulated::copies_of_thread().emplace_back(); }
template <int Pending>
void wait_copies() {
  auto& groups = emulated::copies_of_thread();
  if (!groups.back().empty())
    throw std::logic_error("emulation: copies that belong to no group are never waited for");
  while (groups.size() > Pending + 1) {
    for (const emulated::Copy& copy : groups.front())
      std::memcpy(copy.target, copy.bytes, sizeof(copy.bytes));
    groups.erase(groups.begin());
  }
}

}  // namespace nystrom::cuda
