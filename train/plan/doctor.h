// What `nystrom doctor` finds out: the machine, the build, and what to do about what is missing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nystrom {

/// One line of the examination.
struct Finding {
  /// note: works, but could be better or is worth knowing; missing: the machine has something that
  /// this build cannot use.
  enum class Status { ok, note, missing };

  std::string name;
  Status status = Status::ok;
  std::string text;
  std::string advice;  ///< what to do; empty when there is nothing
};

const char* name_of(Finding::Status status);

/// The processor, threads, load, memory, and the disk of the current folder. `root` is where /proc
/// and /sys are found: tests have their own.
std::vector<Finding> examine_machine(const std::filesystem::path& root = "/");

/// GPUs and their driver, and the libraries for them that this build has.
std::vector<Finding> examine_gpus(const std::filesystem::path& root = "/");

/// A line a library, with its version.
std::vector<Finding> examine_libraries();

}  // namespace nystrom
