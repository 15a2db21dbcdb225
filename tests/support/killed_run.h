// A run that is killed and started again, beside one that is not.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/run_program.h"

namespace nystrom::testing {

/// Runs `command` with a run_dir behind it, at once and killed at its checkpoint of step 7: both
/// end in the same bits at step `last`.
inline void expect_same_bits_after_a_kill(const TemporaryFolder& folder, const std::string& command,
                                          int last) {
  const Outcome straight = run_program(folder, command + "straight");
  ASSERT_EQ(straight.code, 0) << straight.err;
  const pid_t process = start_command(folder, program_word() + command + "killed");
  while (!std::filesystem::exists(folder / "killed/checkpoints/step-7"))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(process, SIGKILL);
  outcome(process);
  const Outcome resumed = run_program(folder, command + "killed");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const std::string end = "checkpoints/step-" + std::to_string(last);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(read_bytes(folder / "killed" / end / file),
              read_bytes(folder / "straight" / end / file));
}

}  // namespace nystrom::testing
