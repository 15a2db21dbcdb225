// A run that is killed and started again, beside one that is not.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/support/program_test.h"

namespace nystrom::testing {

/// Runs `command` with a run_dir behind it, at once and killed at its checkpoint of step 7: both
/// end in the same bits at step `last`.
inline void expect_same_bits_after_a_kill(const TemporaryFolder& folder, const std::string& command,
                                          int last) {
  succeeded(run_program(folder, command + "straight"));
  ended_at(start_command(folder, program_word() + command + "killed"),
           folder / "killed/checkpoints/step-7", SIGKILL);
  succeeded(run_program(folder, command + "killed"));
  const std::string end = "checkpoints/step-" + std::to_string(last);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(read_bytes(folder / "killed" / end / file),
              read_bytes(folder / "straight" / end / file));
}

}  // namespace nystrom::testing
