// The device of the CUDA tests: a GPU, or the emulator on the CPU (tests/cuda_emulation/README.md).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <tuple>

#include "core/base/error.h"
#include "core/cuda/runtime.h"
#include "core/device.h"
#include "core/dtype.h"
#ifdef NYSTROM_CUDA_EMULATED
#include "tests/cuda_emulation/emulation.h"
#endif

namespace nystrom::testing {

inline constexpr Device gpu{Device::Kind::cuda, 0};

/// Reverses the order of threads in the emulator. The second of two runs then differs if the order
/// matters. A GPU varies its order without help.
inline void run_threads_backward() {
#ifdef NYSTROM_CUDA_EMULATED
  emulation::set_order(emulation::Order::backward);
#endif
}

/// Names a test by its case and its type, as case_name does by its case alone.
inline constexpr auto case_and_type = [](const auto& test) {
  return std::string(std::get<0>(test.param).name) + "_" + name_of(std::get<DType>(test.param));
};

/// A test that needs a GPU. It is skipped without one.
template <class Base = ::testing::Test>
class GpuTest : public Base {
 protected:
  void SetUp() override {
    try {
      cuda::require_device(gpu.index);
    } catch (const InputError& error) {
      if (std::getenv("NYSTROM_NEEDS_GPU")) FAIL() << error.what();
      GTEST_SKIP() << error.what();
    }
  }
#ifdef NYSTROM_CUDA_EMULATED
  void TearDown() override { emulation::set_order(emulation::Order::forward); }
#endif
};

}  // namespace nystrom::testing
