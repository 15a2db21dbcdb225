// The program's own description: help, manual page, completion and version. All but the last
// are made from the declared commands and options.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace nystrom {

/// Shows an option as "--batch N   sequences computed at once (at least 1; default 16)".
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// The permitted words of an option, with `separator` between them; empty if it has no fixed set.
/// CLI11 shows a set as "TEXT:{f32,bf16}".
std::string permitted_words(const CLI::Option& option, char separator);

/// The manual page nystrom(1) in the man macros of roff, for `nystrom --man | man -l -` and
/// packages. It holds the help of every command, and the same program gives the same bytes.
std::string man_page(const CLI::App& app);

/// The shells that completion() knows.
inline const std::vector<std::string> completion_shells = {"bash", "zsh", "fish"};

/// A script for `source <(nystrom --completion bash)` (zsh the same) or `nystrom --completion fish
/// | source`. `shell` is one of completion_shells.
std::string completion(const std::string& shell);

/// The words that may complete the last of `words`, which stand behind the program's name:
/// commands, their options, values from a fixed set of words, and the options of a run behind
/// --set, --grid and --explain. Commands and options have a tab and their description behind them.
/// Empty where files are due.
std::vector<std::string> candidates(const CLI::App& app, const std::vector<std::string>& words);

/// Four lines: the version; the commit of the sources, with "-dirty" if they were changed, or
/// "unknown" outside a repository; the vector level in use here; and whether this build has CUDA
/// and this machine a GPU for it.
std::string version_text();

}  // namespace nystrom
