#include "train/cli/completion.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>

#include "core/check.h"

namespace nystrom {
namespace {

/// The words of an option with a fixed set, with spaces between; empty for others. CLI11 shows a
/// set as "TEXT:{f32,bf16}".
std::string words_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == type.npos || end == type.npos) return "";
  std::string words = type.substr(begin + 1, end - begin - 1);
  std::replace(words.begin(), words.end(), ',', ' ');
  return words;
}

/// All names of an option, as typed: "-h", "--help".
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// What the script knows about the options of one command.
struct CommandWords {
  std::vector<std::string> options;
  std::vector<std::string> valued;  ///< those that take a value
  std::string
      choices;  ///< branches of a case over "command option", for those with a fixed set of words
  std::string arguments;  ///< words of the command's argument
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Adds what is known about the options of `command`, which are typed behind the word `first`.
void add_words(CommandWords& found, const CLI::App& command, const std::string& first) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = names_of(*option);
    const std::string words = words_of(*option);
    if (names.empty() && !words.empty()) found.arguments = words;
    for (const std::string& name : names) {
      if (std::find(found.options.begin(), found.options.end(), name) != found.options.end())
        continue;
      found.options.push_back(name);
      if (option->get_items_expected_max() > 0) found.valued.push_back(name);
      if (!words.empty())
        found.choices += fmt::format("    '{} {}') words='{}' ;;\n", first, name, words);
    }
  }
}

/// A command of commands has their names for arguments, and all their options.
CommandWords words_of(const CLI::App& command) {
  CommandWords found;
  add_words(found, command, command.get_name());
  for (const CLI::App* inner : commands_of(command)) {
    add_words(found, *inner, command.get_name());
    found.arguments += (found.arguments.empty() ? "" : " ") + inner->get_name();
  }
  return found;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> first_words;
  CommandWords top;
  add_words(top, app, "");
  std::string choices, options;
  for (const CLI::App* command : commands_of(app)) {
    const CommandWords words = words_of(*command);
    first_words.push_back(command->get_name());
    choices += words.choices;
    options +=
        fmt::format("    {}) options='{}' valued='{}' arguments='{}' ;;\n", command->get_name(),
                    fmt::join(words.options, " "), fmt::join(words.valued, " "), words.arguments);
  }
  for (const std::string& option : top.options) first_words.push_back(option);
  // bash makes "=" a word of its own. Where there are no words, `complete -o default` offers files.
  return fmt::format(
      R"(# Completion of nystrom in bash. Put into ~/.bashrc: source <(nystrom --completion bash)
_nystrom() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command=${{COMP_WORDS[1]}} words='' options='' valued='' arguments=''
  if [[ $previous == '=' ]]; then previous=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  if [[ $current == '=' ]]; then current=''; fi
  case $command in
{options}  esac
  case "$command $previous" in
{choices}    '--completion --completion') words='bash' ;;
    *)
      if ((COMP_CWORD == 1)); then words='{first_words}'
      elif [[ " $valued " == *" $previous "* ]]; then words=''
      elif [[ $current == -* ]]; then words=$options
      else words=$arguments
      fi
      ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _nystrom nystrom
)",
      fmt::arg("first_words", fmt::join(first_words, " ")), fmt::arg("choices", choices),
      fmt::arg("options", options));
}

}  // namespace nystrom
