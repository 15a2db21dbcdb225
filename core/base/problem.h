// What is wrong with settings: each rule that they break, and the options that it concerns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// A rule that settings break.
struct Problem {
  std::vector<std::string> options;  ///< paths of the options that it concerns: "training.steps"
  std::string message;               ///< one line that begins with the path of the one at fault

  bool operator==(const Problem&) const = default;
};

using Problems = std::vector<Problem>;

/// The problems of a section as problems of the settings that hold it as `section`.
inline Problems in_section(std::string_view section, Problems problems) {
  const std::string prefix = std::string(section) + ".";
  for (Problem& problem : problems) {
    for (std::string& option : problem.options) option = prefix + option;
    problem.message = prefix + problem.message;
  }
  return problems;
}

/// The lines alone.
inline std::vector<std::string> messages_of(const Problems& problems) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems) lines.push_back(problem.message);
  return lines;
}

}  // namespace nystrom
