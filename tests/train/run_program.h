// Runs the built program as a user would.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

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

/// The program's path, as a shell word.
inline std::string program_word() { return "'" + build_folder().string() + "/nystrom' "; }

/// Runs `nystrom ARGUMENTS` (shell words) in `folder`.
inline Outcome run_program(const TemporaryFolder& folder, const std::string& arguments) {
  return run_command(folder, program_word() + arguments);
}

/// Starts `command` (shell words) in `folder`; its messages go to the file `log` there. It ends with the test program at the latest.
inline pid_t start_command(const TemporaryFolder& folder, const std::string& command) {
  const std::string line = "cd '" + folder.path().string() + "' && exec " + command + " >log 2>&1 </dev/null";
  const pid_t process = ::fork();
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    ::_exit(99);
  }
  return process;
}

/// How it ended: its exit code, or minus the signal that ended it. Going on for two minutes is a failure, and ends it.
inline int outcome(pid_t process) {
  int status = 0;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (::waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > limit) {
      ADD_FAILURE() << "process " << process << " does not end";
      ::kill(process, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace nystrom::testing
