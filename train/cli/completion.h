// Completion of the command line in a shell, made from the options that the commands declare.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace nystrom {

/// A bash script that completes commands, their options, and the words of options and arguments
/// with a fixed set of them; everything else completes to files. For `source <(nystrom --completion
/// bash)`.
std::string bash_completion(const CLI::App& app);

}  // namespace nystrom
