// The checks of `nystrom doctor`: the machine, the build, and remedies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nystrom {

/// The result of one check.
struct Finding {
  std::string name;
  /// ok; note: works, but could be better or needs attention; missing: the machine has something
  /// that this build cannot use.
  std::string status;
  std::string text;
  std::string advice;  ///< a remedy, or empty
};

/// Checks the processor, threads, load, memory, and the disk of the current folder. `root` is the
/// folder that contains /proc and /sys, which tests replace.
std::vector<Finding> examine_machine(const std::filesystem::path& root = "/");

/// Names such as "NVIDIA H100", one for each GPU of the machine. The name is unknown without a
/// driver, or when the driver shows only device files, as in some containers.
std::vector<std::string> gpu_names(const std::filesystem::path& root = "/");

/// Checks GPUs and their driver, and the GPU libraries of this build.
std::vector<Finding> examine_gpus(const std::filesystem::path& root = "/");

/// The version of each library.
std::vector<Finding> examine_libraries();

}  // namespace nystrom
