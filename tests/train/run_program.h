// Runs the built program as a user would.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/places.h"
#include "tests/train/temporary_folder.h"

namespace nystrom::testing {

struct Outcome {
  int code;
  std::string out, err;
};

/// Runs `command` (shell words) in `folder`.
inline Outcome run_command(const TemporaryFolder& folder, const std::string& command) {
  const std::string line = "cd '" + folder.path().string() + "' && " + command + " >.out 2>.err </dev/null";
  const int status = std::system(line.c_str());
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(folder / ".out"), read_bytes(folder / ".err")};
  for (const char* name : {".out", ".err"}) std::filesystem::remove(folder / name);
  return outcome;
}

/// Runs `nystrom ARGUMENTS` (shell words) in `folder`.
inline Outcome run_program(const TemporaryFolder& folder, const std::string& arguments) {
  return run_command(folder, "'" + build_folder().string() + "/nystrom' " + arguments);
}

}  // namespace nystrom::testing
