#include "train/cli/help.h"

#include <sstream>

#include "core/check.h"

namespace nystrom {
namespace {

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
  for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; }))
    page += section_of(*inner, name, help);
  return page;
}

}  // namespace

std::string man_page(const CLI::App& app) {
  const HelpFormatter help;
  const std::string& about = app.get_description();  // "nystrom: train, run and …"
  std::string page =
      ".TH NYSTROM 1 \"\" \"nystrom " NYSTROM_VERSION "\" \"User Commands\"\n.ad l\n.SH NAME\n";
  page += "nystrom \\- " + escaped(about.substr(about.find(':') + 2)) + "\n";
  page += ".SH SYNOPSIS\n.B nystrom\n.I COMMAND\n[\\fIOPTIONS\\fR]\n";
  page += ".SH OPTIONS\n" + options_of(app, help) + text_blocks("\n" + app.get_footer());
  page += ".SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    page += section_of(*command, "nystrom", help);
  return page + exit_status;
}

}  // namespace nystrom
