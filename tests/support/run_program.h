// Runs the built program as a user would.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {

struct Outcome {
  int code;
  std::string out, err, command;
};

/// Shell words that clean the environment. Variables of the tests' own launcher (mpirun, Slurm,
/// torchrun) must not reach the programs, nor a locale that may not be installed.
inline std::string clean_environment() {
  std::string words = "export LC_ALL=C; unset RANK LOCAL_RANK WORLD_SIZE";
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string name = std::string(*each).substr(0, std::string_view(*each).find('='));
    for (const char* launcher : {"OMPI_COMM_WORLD_", "PMI_", "PMIX_", "SLURM_"}) {
      if (name.starts_with(launcher)) words += " " + name;
    }
  }
  return words + "; ";
}

/// Starts a shell in `folder` as the leader of a new process group. It is killed when the test
/// program ends.
inline pid_t start_shell(const TemporaryFolder& folder, const std::string& words) {
  const std::string line = clean_environment() + "cd '" + folder.path().string() + "' && " + words;
  const pid_t process = ::fork();
  if (process < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGHUP, SIG_DFL);  // nohup lets it be ignored, and the program would leave it so
    ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    ::_exit(99);
  }
  return process;
}

/// Starts `command` (shell words) in `folder`. Its output goes to the file `log` there.
inline pid_t start_command(const TemporaryFolder& folder, const std::string& command) {
  return start_shell(folder, "exec " + command + " >log 2>&1 </dev/null");
}

/// Waits for a process and returns its exit code, or minus the signal that ended it. Running longer
/// than `limit` is a failure and ends the process group. SIGTERM is sent first: an mpirun that is
/// killed leaves shared memory behind.
inline int outcome(pid_t process, std::chrono::seconds limit = std::chrono::minutes(2)) {
  using Clock = std::chrono::steady_clock;
  int status = 0;
  auto end = Clock::now() + limit;
  for (int signal = SIGTERM; ::waitpid(process, &status, WNOHANG) == 0;) {
    if (Clock::now() > end) {
      if (signal == SIGTERM)
        ADD_FAILURE() << "process " << process << " does not end within " << limit.count()
                      << " seconds";
      ::kill(-process, signal);
      signal = SIGKILL;
      end = Clock::now() + std::chrono::seconds(10);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Sends `signal` to a process once `path` exists, and returns outcome() of it.
inline int ended_at(pid_t process, const std::filesystem::path& path, int signal) {
  for (int i = 0; i < 60000 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(process, signal);
  return outcome(process);
}

/// Runs `command` (shell words) in `folder` for at most five minutes.
inline Outcome run_command(const TemporaryFolder& folder, const std::string& command) {
  const int code =
      outcome(start_shell(folder, command + " >.out 2>.err </dev/null"), std::chrono::minutes(5));
  Outcome outcome{code, read_bytes(folder / ".out"), read_bytes(folder / ".err"), command};
  for (const char* name : {".out", ".err"}) std::filesystem::remove(folder / name);
  return outcome;
}

/// The program's path, as a shell word.
inline std::string program_word() { return "'" + build_folder().string() + "/nystrom' "; }

/// Runs `nystrom ARGUMENTS` (shell words) in `folder`.
inline Outcome run_program(const TemporaryFolder& folder, const std::string& arguments) {
  return run_command(folder, program_word() + arguments);
}

}  // namespace nystrom::testing
