#include "train/cli/help.h"

#include <algorithm>
#include <sstream>

#include "core/check.h"

namespace nystrom {
namespace {

// ---- Help ---------------------------------------------------------------------------------------

/// A range, which CLI11 writes into the name of a type ("INT:INT in [1 - 64]"): "1 to 64"; "at
/// least 1" where the upper bound only guards against overflow. Empty without one.
std::string range_of(const std::string& type) {
  const std::size_t begin = type.find(" in ["), dash = type.find(" - ", begin);
  const std::size_t end = type.find(']', dash);
  if (begin == type.npos || dash == type.npos || end == type.npos) return "";
  const std::string lower = type.substr(begin + 5, dash - begin - 5),
                    upper = type.substr(dash + 3, end - dash - 3);
  constexpr double practical = 1e6;
  std::istringstream number(upper);
  double most = 0;
  return number >> most && most >= practical ? "at least " + lower : lower + " to " + upper;
}

/// Shows an option as "--batch N   sequences computed at once (at least 1; default 16)".
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(28); }

  /// The placeholder of an option's value: " N", " f32|bf16", " TEXT …".
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || option->get_items_expected_max() == 0) return "";
    const std::string type = option->get_type_name();
    std::string words = permitted_words(*option, '|');
    if (words.empty()) words = type.substr(0, type.find(':'));
    if (words == "INT" || words == "UINT") words = "N";
    if (words == "FLOAT" || words == "POSITIVE" || words == "NUMBER") words = "X";
    if (option->get_lnames().empty() && words == "TEXT") words.clear();  // a name says it
    const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    return (words.empty() ? "" : " " + words) + (many && option->get_lnames().empty() ? " …" : "");
  }

  /// The description, with the range, the default, and whether the option is required.
  std::string make_option_desc(const CLI::Option* option) const override {
    std::vector<std::string> notes;
    if (const std::string range = range_of(option->get_type_name()); !range.empty())
      notes.push_back(range);
    if (!option->get_default_str().empty()) notes.push_back("default " + option->get_default_str());
    if (option->get_required()) notes.emplace_back("required");
    const std::string text = option->get_description();
    return notes.empty() ? text : fmt::format("{} ({})", text, fmt::join(notes, "; "));
  }
};

// ---- The manual page ----------------------------------------------------------------------------

constexpr const char* exit_status = R"(.SH EXIT STATUS
.TP
.B 0
The command is done.
.TP
.B 1
An internal error, or another process of the run was lost.
.TP
.B 2
The input is wrong: a file, an option or the machine. One line says what to do.
.TP
.B 130
A signal stopped the command. The same command resumes from its last checkpoint.
)";

/// Text for roff: hyphens as they are typed, no line that reads as a request, and long lists of
/// words that may break.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool at_line_start = result.empty() || result.back() == '\n';
    if (at_line_start && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '|')
      result += "|\\:";
    else
      result += c;
  }
  return result;
}

/// The free text below the options: paragraphs, and lines of examples, which begin with spaces.
std::string text_blocks(const std::string& text) {
  std::string page;
  bool example = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    if (indented != example) page += indented ? ".PP\n.EX\n" : ".EE\n";
    example = indented;
    if (line.empty())
      page += ".PP\n";
    else
      page += escaped(line) + "\n";
  }
  return page + (example ? ".EE\n" : "");
}

/// The paragraph of each positional and option that --help shows.
std::string options_of(const CLI::App& command, const HelpFormatter& help) {
  std::string page;
  const auto shown = [](const CLI::Option* option) { return !option->get_group().empty(); };
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : command.get_options(shown)) {
      if (option->get_positional() != positional) continue;
      page += fmt::format(
          ".TP\n.B {}\n{}\n",
          escaped(help.make_option_name(option, positional) + help.make_option_opts(option)),
          escaped(help.make_option_desc(option)));
    }
  }
  return page;
}

/// "nystrom pretrain [OPTIONS] CONFIG"
std::string usage_of(const CLI::App& command, const std::string& name, const HelpFormatter& help) {
  const std::string usage = help.make_usage(&command, name);
  const std::size_t begin = usage.find(name);
  return usage.substr(begin, usage.find('\n', begin) - begin);
}

/// The section of a command, and those of its own subcommands.
std::string section_of(const CLI::App& command, const std::string& parent,
                       const HelpFormatter& help) {
  const std::string name = parent + " " + command.get_name();
  std::string page =
      fmt::format(".SS {}\n.B {}\n.PP\n{}.\n", escaped(name),
                  escaped(usage_of(command, name, help)), escaped(command.get_description()));
  page += options_of(command, help) + text_blocks("\n" + command.get_footer());
  for (const CLI::App* inner : command.get_subcommands({})) page += section_of(*inner, name, help);
  return page;
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

std::string permitted_words(const CLI::Option& option, char separator) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == type.npos || end == type.npos) return "";
  std::string words = type.substr(begin + 1, end - begin - 1);
  std::ranges::replace(words, ',', separator);
  return words;
}

std::string man_page(const CLI::App& app) {
  const HelpFormatter help;
  const std::string& about = app.get_description();  // "nystrom: train, run and …"
  std::string page =
      ".TH NYSTROM 1 \"\" \"nystrom " NYSTROM_VERSION "\" \"User Commands\"\n.ad l\n.SH NAME\n";
  page += "nystrom \\- " + escaped(about.substr(about.find(':') + 2)) + "\n";
  page += ".SH SYNOPSIS\n.B nystrom\n.I COMMAND\n[\\fIOPTIONS\\fR]\n";
  page += ".SH OPTIONS\n" + options_of(app, help) + text_blocks("\n" + app.get_footer());
  page += ".SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands({}))
    page += section_of(*command, "nystrom", help);
  return page + exit_status;
}

}  // namespace nystrom
