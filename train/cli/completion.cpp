#include "train/cli/help.h"

#include <algorithm>

#include "core/check.h"
#include "train/config/config_docs.h"

namespace nystrom {
namespace {

/// All names of an option with their dashes: "-h", "--help".
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// The completions of one command.
struct CommandWords {
  std::vector<std::string> options;
  std::vector<std::string> valued;  ///< options that take a value
  std::string choices;  ///< branches of a case over "command option", for options with fixed words
  std::string arguments;  ///< permitted words of the command's argument
};

/// Adds the options of `command` to `found`. `first` is the first word of the command line.
void add_words(CommandWords& found, const CLI::App& command, const std::string& first) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = names_of(*option);
    const std::string words = permitted_words(*option, ' ');
    if (names.empty() && !words.empty()) found.arguments = words;
    for (const std::string& name : names) {
      if (std::ranges::find(found.options, name) != found.options.end()) continue;
      found.options.push_back(name);
      if (option->get_items_expected_max() > 0) found.valued.push_back(name);
      if (!words.empty())
        found.choices += fmt::format("    '{} {}') words='{}' ;;\n", first, name, words);
    }
  }
}

/// The completions of a command. If it has subcommands, their names are its arguments, and their
/// options are included.
CommandWords words_of(const CLI::App& command) {
  CommandWords found;
  add_words(found, command, command.get_name());
  for (const CLI::App* inner : command.get_subcommands({})) {
    add_words(found, *inner, command.get_name());
    found.arguments += (found.arguments.empty() ? "" : " ") + inner->get_name();
  }
  return found;
}

/// The options of a run, each followed by `end`.
std::string keys_with(const std::string& end) {
  std::string keys;
  for (const std::string& path : option_paths()) keys += (keys.empty() ? "" : " ") + path + end;
  return keys;
}

std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> first_words;
  CommandWords top;
  add_words(top, app, "");
  std::string choices, options;
  for (const CLI::App* command : app.get_subcommands({})) {
    const CommandWords words = words_of(*command);
    first_words.push_back(command->get_name());
    choices += words.choices;
    options +=
        fmt::format("    {}) options='{}' valued='{}' arguments='{}' ;;\n", command->get_name(),
                    fmt::join(words.options, " "), fmt::join(words.valued, " "), words.arguments);
  }
  for (const std::string& option : top.options) first_words.push_back(option);
  // bash treats "=" as a separate word. Without words, `complete -o default` offers files.
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
{choices}    '--completion --completion') words='{shells}' ;;
    'config --explain') words='{keys}' ;;
    *' --set' | *' --grid')
      words='{assignments}'
      compopt -o nospace 2> /dev/null
      ;;
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
      fmt::arg("options", options), fmt::arg("shells", fmt::join(completion_shells, " ")),
      fmt::arg("keys", keys_with("")), fmt::arg("assignments", keys_with("=")));
}

/// The script of bash, through zsh's own translation. As a file _nystrom in zsh's function path it
/// is loaded by the first completion, which it then has to answer.
std::string zsh_completion(const CLI::App& app) {
  return "#compdef nystrom\n"
         "# Completion of nystrom in zsh. Put into ~/.zshrc: source <(nystrom --completion zsh)\n"
         "(( $+functions[compdef] )) || { autoload -U +X compinit && compinit -C }\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(app) +
         "[[ $funcstack[1] != _nystrom ]] || _bash_complete -o default -F _nystrom\n";
}

/// Words in single quotes of fish.
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

/// A line for each option of `command`, under `condition`.
std::string fish_options(const CLI::App& command, const std::string& condition) {
  std::string lines;
  for (const CLI::Option* option : command.get_options()) {
    std::string words = permitted_words(*option, ' ');
    if (option->get_lnames().empty() && words.empty()) continue;
    std::string line = "complete -c nystrom -n " + fish_quoted(condition);
    for (const std::string& name : option->get_snames()) line += " -s " + name;
    for (const std::string& name : option->get_lnames()) {
      line += " -l " + name;
      if (name == "set" || name == "grid") words = keys_with("=");
      if (name == "explain") words = keys_with("");
      if (name == "completion") words = fmt::format("{}", fmt::join(completion_shells, " "));
    }
    if (!words.empty())
      line += (option->get_lnames().empty() ? " -f -a " : " -x -a ") + fish_quoted(words);
    else if (option->get_items_expected_max() > 0)
      line += " -r";
    lines += line + " -d " + fish_quoted(option->get_description()) + "\n";
  }
  return lines;
}

std::string fish_completion(const CLI::App& app) {
  std::string script =
      "# Completion of nystrom in fish. Put into config.fish: nystrom --completion fish | "
      "source\n" +
      fish_options(app, "__fish_use_subcommand");
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    const std::string inside = "__fish_seen_subcommand_from " + name;
    script += fmt::format("complete -c nystrom -f -n __fish_use_subcommand -a {} -d {}\n", name,
                          fish_quoted(command->get_description()));
    script += fish_options(*command, inside);
    for (const CLI::App* inner : command->get_subcommands({})) {
      script += fmt::format("complete -c nystrom -f -n {} -a {} -d {}\n", fish_quoted(inside),
                            inner->get_name(), fish_quoted(inner->get_description()));
      script += fish_options(*inner, "__fish_seen_subcommand_from " + inner->get_name());
    }
  }
  return script;
}

}  // namespace

std::string completion(const CLI::App& app, const std::string& shell) {
  if (shell == "zsh") return zsh_completion(app);
  return shell == "fish" ? fish_completion(app) : bash_completion(app);
}

}  // namespace nystrom
