#include <algorithm>

#include "core/check.h"
#include "train/cli/help.h"
#include "train/config/config_docs.h"

namespace nystrom {
namespace {

// The scripts ask the program for words: nystrom --complete WORD … CURRENT. Without any they offer
// files.

// bash makes "=" a word of its own.
constexpr std::string_view bash_completion =
    R"(# Completion of nystrom in bash. Put into ~/.bashrc: source <(nystrom --completion bash)
_nystrom() {
  local current=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]/#\~/$HOME}
  if [[ $current == '=' ]]; then current=''; fi
  COMPREPLY=($("$program" --complete "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}" "$current" \
    2> /dev/null | cut -f1))
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -o default -F _nystrom nystrom
)";

/// The script of bash, through zsh's own translation. As a file _nystrom in zsh's function path it
/// is loaded by the first completion, which it then has to answer.
constexpr std::string_view zsh_completion = R"(#compdef nystrom
# Completion of nystrom in zsh. Put into ~/.zshrc: source <(nystrom --completion zsh)
(( $+functions[compdef] )) || {{ autoload -U +X compinit && compinit -C }}
autoload -U +X bashcompinit && bashcompinit
{}[[ $funcstack[1] != _nystrom ]] || _bash_complete -o default -F _nystrom
)";

constexpr std::string_view fish_completion =
    R"(# Completion of nystrom in fish. Put into config.fish: nystrom --completion fish | source
function __nystrom_complete
  set -l words (commandline -opc)
  set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
  set -e words[1]
  set -l found ($program --complete $words (commandline -ct) 2> /dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c nystrom -f -a '(__nystrom_complete)'
)";

/// The words that may follow an option; none where they are free.
std::vector<std::string> values_of(const CLI::Option& option, const std::string& name) {
  std::vector<std::string> words = CLI::detail::split(permitted_words(option, ' '), ' ');
  if (name == "--set" || name == "--grid" || name == "--explain") words = option_paths();
  if (name == "--set" || name == "--grid")
    for (std::string& word : words) word += '=';
  return words;
}

/// The words that may stand where no value of an option is due.
std::vector<std::string> words_of(const CLI::App& command, bool options) {
  std::vector<std::string> words;
  if (!options)
    for (const CLI::App* inner : command.get_subcommands({}))
      words.push_back(inner->get_name() + "\t" + inner->get_description());
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    if (!options && option->get_positional())
      for (const std::string& word : values_of(*option, "")) words.push_back(word);
    for (const std::string& name : option->get_snames())
      if (options) words.push_back("-" + name + "\t" + option->get_description());
    for (const std::string& name : option->get_lnames())
      if (options) words.push_back("--" + name + "\t" + option->get_description());
  }
  return words;
}

}  // namespace

std::vector<std::string> candidates(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string name;  // the word before the cursor
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "=") continue;
    const auto inner = command->get_subcommands(
        [&](const CLI::App* each) { return each->get_name() == words[i]; });
    if (!inner.empty()) command = inner.front();
    name = words[i];
  }
  const std::string current = words.empty() ? "" : words.back();
  // "--dtype=" of "--dtype=f", which zsh and fish leave in one word.
  const std::string assigned =
      current.starts_with('-') ? current.substr(0, current.find('=') + 1) : "";
  if (!assigned.empty()) name = assigned.substr(0, assigned.size() - 1);
  const CLI::Option* option = name.starts_with('-') ? command->get_option_no_throw(name) : nullptr;
  const bool value = option && option->get_items_expected_max() > 0;
  std::vector<std::string> found =
      value ? values_of(*option, name) : words_of(*command, current.starts_with('-'));
  std::erase(found, "");  // of an option with free values
  for (std::string& word : found) word.insert(0, value ? assigned : "");
  std::erase_if(found, [&](const std::string& word) { return !word.starts_with(current); });
  return found;
}

std::string completion(const std::string& shell) {
  if (shell == "zsh") return fmt::format(zsh_completion, bash_completion);
  return std::string(shell == "fish" ? fish_completion : bash_completion);
}

}  // namespace nystrom
