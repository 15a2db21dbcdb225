// Pipes as input files: `--text <(…)` of a shell, and /dev/stdin.
#pragma once

#include <string>
#include <vector>

namespace nystrom {

/// A pipe has no size and can be read once, but commands measure files and read them again. This
/// reads each pipe that an argument names by its descriptor (/dev/stdin, /dev/fd/63) to its end,
/// into a temporary file without a name, which takes the place of the descriptor. The names then
/// stand for ordinary files. Throws an InputError when a pipe cannot be read, or the file not be
/// written.
void read_piped_inputs(const std::vector<std::string>& arguments);

}  // namespace nystrom
