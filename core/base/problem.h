// Problems of settings: the rules that they break, and the options concerned.
#pragma once

#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/require.h"

namespace nystrom {

/// A rule that settings break.
struct Problem {
  std::vector<std::string> options;  ///< paths of the options concerned: "training.steps"
  std::string message;               ///< one line that begins with the path of the wrong option

  bool operator==(const Problem&) const = default;
};

using Problems = std::vector<Problem>;

/// Adds a problem of these options, with a formatted message.
template <class... Args>
void add_problem(Problems& found, std::vector<std::string> options,
                 fmt::format_string<Args...> message, Args&&... args) {
  found.push_back({std::move(options), fmt::format(message, std::forward<Args>(args)...)});
}

/// The problems of a section, with `section` in front of all option paths.
inline Problems in_section(std::string_view section, Problems problems) {
  const std::string prefix = std::string(section) + ".";
  for (Problem& problem : problems) {
    for (std::string& option : problem.options) option.insert(0, prefix);
    problem.message.insert(0, prefix);
  }
  return problems;
}

/// The messages of problems.
inline std::vector<std::string> messages_of(const Problems& problems) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems) lines.push_back(problem.message);
  return lines;
}

/// Throws an InputError "WHERE: MESSAGE; MESSAGE" if there are problems.
inline void require_none(const std::string& where, const Problems& problems) {
  require_input(problems.empty(), "{}: {}", where, fmt::join(messages_of(problems), "; "));
}

}  // namespace nystrom
