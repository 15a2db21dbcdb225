// Pipes as input files: `--text <(…)` of a shell, and /dev/stdin.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/logging/scratch_folder.h"

namespace nystrom {

/// A pipe has no size and can be read once, but commands measure files and read them again. This
/// object reads each pipe that an argument names by its descriptor (/dev/stdin, /dev/fd/63) to its
/// end, into a temporary file, which takes the place of the descriptor. The names then stand for
/// ordinary files, as long as the object lives.
class PipedInputs {
 public:
  /// Throws an InputError when a pipe cannot be read, or the file not be written.
  explicit PipedInputs(const std::vector<std::string>& arguments);

 private:
  std::optional<ScratchFolder> folder_;  // made for the first pipe
};

}  // namespace nystrom
