// Writes the names of the kernels that a test program called to kernels/PROGRAM.txt in the build
// folder. The test `kernels_exercised` reads them.
#include <errno.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>

#include "core/dispatch.h"
#include "tests/support/places.h"

namespace nystrom::testing {
namespace {

std::mutex names_mutex;

std::set<std::string>& names() {
  static std::set<std::string> instance;
  return instance;
}

class KernelNames : public ::testing::Environment {
 public:
  void SetUp() override {
    set_kernel_observer([](const KernelCall& call, bool begin) {
      if (!begin) return;
      const std::lock_guard lock(names_mutex);
      names().insert(call.name);
    });
  }
  void TearDown() override {
    set_kernel_observer(nullptr);
    const std::filesystem::path folder = build_folder().string() + "/kernels";
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / (std::string(program_invocation_short_name) + ".txt"));
    for (const auto& name : names()) file << name << '\n';
  }
};

[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(new KernelNames);

}  // namespace
}  // namespace nystrom::testing
