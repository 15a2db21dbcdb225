// Runs of several processes with mpirun and the program. With NYSTROM_TEST_ON_GPUS they compute on
// emulated GPUs and are connected by an emulated NCCL (tests/nccl_emulation).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/file_io.h"
#include "tests/support/mpirun.h"
#include "tests/support/places.h"
#include "tests/support/program_test.h"
#include "tests/support/small_text.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {

namespace fs = std::filesystem;

using std::chrono::milliseconds;

inline const bool on_gpus = [] {
  ::setenv("NYSTROM_EMULATED_GPUS", "4", 1);  // one for each process
  return std::getenv("NYSTROM_TEST_ON_GPUS") != nullptr;
}();
/// The folder of the programs under test, and the program as a shell word.
inline const std::string program_folder = build_folder().string() + (on_gpus ? "/emulated" : "");
inline const std::string program = "'" + program_folder + "/nystrom' ";
/// The option of commands that compute.
inline const std::string device = on_gpus ? "--device cuda " : "";

class DistributedTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
    write_small_run(folder_,
                    "optimizer: {learning_rate: 1.0e-4}\n"
                    "schedule: {warmup_steps: 2, decay: constant}\n"
                    "training: {steps: 20, batch_size: 8, micro_batch_size: 2, dtype: f32}\n"
                    "evaluation: {every: 10}\n"
                    "checkpoint: {every: 5, keep: 2}\n"
                    "logging: {every: 1, tensorboard: false}\n",
                    "num_landmarks: 4, conv_kernel_size: 5", 2);
  }

  static std::string options(const std::string& run_dir, const std::string& sets) {
    std::string words = "pretrain run.yaml --threads 1 " + device + "--set run_dir=" + run_dir;
    std::istringstream list(sets);
    for (std::string set; list >> set;) words += " --set " + set;
    return words;
  }
  /// Pretrains in `processes` processes; one process runs without mpirun. `sets` are options of the
  /// configuration, such as "training.zero=1 …".
  Outcome train(int processes, const std::string& run_dir, const std::string& sets = "") {
    const std::string command = program + options(run_dir, sets);
    return run_command(folder_, processes == 1
                                    ? command
                                    : mpirun + "-np " + std::to_string(processes) + " " + command);
  }

  /// Starts mpirun in the background. Its processes write their process ids to the files pid.RANK
  /// and their messages to `log`.
  pid_t start(int processes, const std::string& run_dir, const std::string& sets) {
    for (int rank = 0; rank < 4; ++rank) fs::remove(folder_ / ("pid." + std::to_string(rank)));
    fs::remove(folder_ / "log");
    write_bytes(folder_ / "one.sh",
                "echo $$ > pid.tmp.$OMPI_COMM_WORLD_RANK; mv pid.tmp.$OMPI_COMM_WORLD_RANK "
                "pid.$OMPI_COMM_WORLD_RANK\nexec " +
                    program + options(run_dir, sets) + "\n");
    return start_command(folder_, mpirun + "-np " + std::to_string(processes) + " sh one.sh");
  }
  /// Waits for a job of start() and for all of its processes, and returns its exit code. mpirun
  /// (Open MPI 4.1.4) may end before the processes that it killed.
  int outcome_of(pid_t job) {
    const int code = outcome(job);
    for (int rank = 0; rank < 4; ++rank) {
      const std::string status = "/proc/" + std::to_string(process_of(rank)) + "/stat";
      wait_until([&] {
        const std::string text = read_bytes(status);
        return text.empty() || text.find(") Z ") != text.npos;
      });
    }
    return code;
  }
  /// Waits for half a minute at most.
  template <class F>
  void wait_until(const F& holds) {
    for (int i = 0; i < 6000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(5));
    ASSERT_TRUE(holds()) << read_bytes(folder_ / "log");
  }
  void wait_for(const fs::path& path) {
    SCOPED_TRACE(path);
    wait_until([&] { return fs::exists(folder_ / path); });
  }
  /// Sends `signal` to a process of the run after its checkpoint of `step` exists.
  void signal_rank(int rank, int signal, const std::string& run_dir, int step = 5) {
    wait_for(fs::path(run_dir) / "checkpoints" / ("step-" + std::to_string(step)));
    signal_process(rank, signal);
  }
  /// Sends `signal` to process `rank` of the last job of start().
  void signal_process(int rank, int signal) {
    wait_for("pid." + std::to_string(rank));
    ASSERT_GT(process_of(rank), 0);
    ::kill(process_of(rank), signal);  // the process may have ended
  }
  /// The process id of `rank` in the last job of start(), or 0.
  pid_t process_of(int rank) {
    std::ifstream file(folder_ / ("pid." + std::to_string(rank)));
    pid_t process = 0;
    file >> process;
    return process;
  }

  std::string checksum(const std::string& run_dir, int step = 20) {
    return file_checksum(folder_ / run_dir / "checkpoints" / ("step-" + std::to_string(step)) /
                         "model.safetensors");
  }
  void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                   double tolerance) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i])) << "record " << i;
  }
};

}  // namespace nystrom::testing
