// Command line completion for a shell, generated from the declared commands and options.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nystrom {

/// The shells that completion() knows.
inline const std::vector<std::string> completion_shells = {"bash", "zsh", "fish"};

/// A script for `source <(nystrom --completion bash)` (zsh the same) or `nystrom --completion fish
/// | source`. It completes commands, their options, values from a fixed set of words, and the
/// options of a run behind --set, --grid and --explain. Everything else completes to file names.
/// `shell` is one of completion_shells.
std::string completion(const CLI::App& app, const std::string& shell);

}  // namespace nystrom
