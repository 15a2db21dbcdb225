// What a test on a GPU tells its runner (bench/gpu_suites.py), line by line and at once: the file
// $NYSTROM_TEST_RESULTS has the tests that ended when the process breaks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/check.h"
#include "tests/cuda/device.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

/// The code of a process whose GPU answers nothing but errors. The tests behind need another one.
constexpr int broken_device = 86;

std::string name_of(const ::testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + "." + test.name();
}

/// What the GPU says of the work before; empty if nothing is wrong.
std::string error_of_device() {
  if (cuda::launches() == 0) return "";
  try {
    cuda::synchronize(gpu.index);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Does to the test what $NYSTROM_TEST_FAULT says, "crash:NAME", "hang:NAME" or "break:NAME": for
/// trials of the runner.
void inject_fault(const std::string& test) {
  const char* given = std::getenv("NYSTROM_TEST_FAULT");
  const std::string fault = given ? given : "";
  if (fault == "crash:" + test) std::abort();
  while (fault == "hang:" + test) {
  }
#ifdef NYSTROM_CUDA_EMULATED
  if (fault == "break:" + test) emulation::break_device();
#endif
}

class Results : public ::testing::EmptyTestEventListener {
 public:
  explicit Results(const char* path) : file_(path, std::ios::app) {}

 private:
  void write(const nlohmann::ordered_json& record) {
    file_ << record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
          << std::endl;
  }
  void OnTestStart(const ::testing::TestInfo& test) override {
    largest_over_tolerance() = 0;
    write({{"test", name_of(test)}, {"status", "started"}});
    inject_fault(name_of(test));
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    std::string status = result.Skipped() ? "skipped" : result.Passed() ? "passed" : "failed";
    std::string message;
    for (int i = 0; i < result.total_part_count() && message.empty(); ++i)
      if (!result.GetTestPartResult(i).passed()) message = result.GetTestPartResult(i).message();
    const std::string error = error_of_device();
    if (!error.empty()) {
      status = "broke the device";
      message = error + (message.empty() ? "" : "; " + message);
    }
    write({{"test", name_of(test)},
           {"status", status},
           {"seconds", 1e-3 * static_cast<double>(result.elapsed_time())},
           {"error_over_tolerance", largest_over_tolerance()},
           {"message", message.substr(0, 1000)}});
    if (!error.empty()) std::_Exit(broken_device);
  }

  std::ofstream file_;
};

[[maybe_unused]] const bool appended = [] {
  if (const char* path = std::getenv("NYSTROM_TEST_RESULTS"))
    ::testing::UnitTest::GetInstance()->listeners().Append(new Results(path));
  return true;
}();

}  // namespace
}  // namespace nystrom::testing
