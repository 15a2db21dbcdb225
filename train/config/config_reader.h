// The reader of options from YAML: those of a file, and overrides. It does not stop at an error: it
// records the error with its place and continues.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/problem.h"
#include "train/config/config.h"
#include "train/config/yaml.h"

namespace nystrom {

/// A file and its overrides, parsed once, and all that is wrong in them. Places have the number of
/// their source: 0 is the file, i the i-th override. Line 0 means the whole source.
class ConfigReader {
 public:
  /// `text` is nothing for overrides alone; `name` is the text's name in errors.
  ConfigReader(std::optional<std::string_view> text, const std::string& name,
               std::span<const std::string> overrides);

  /// Reads all into `config`. Options that are not given keep their values.
  void read_into(RunConfig& config);
  /// The same for the options `model.…` alone; others are errors.
  void read_into(ModelConfig& model);

  /// Whether the option at `path` was given.
  bool is_given(std::string_view path) const;
  /// The paths of all options and sections that were given.
  std::set<std::string> given() const;
  /// Adds the problems that validate() found. The place of a problem is the last one that gave one
  /// of its options or an enclosing section. A problem is left out if the value of one of these
  /// could not be read: it may only be a consequence.
  void add_problems(const Problems& problems);
  /// Throws an InputError if there are errors: one line for each, in the order of their places, and
  /// at most 50.
  void throw_if_any();

 private:
  class SectionReader;

  /// An option that the user gave, and whether its value could be read.
  struct GivenOption {
    std::string path;
    YamlMark place;
    bool understood = true;
  };

  void parse_file(std::string_view text);
  void add_tree(YamlNode node);
  void report_duplicates(const YamlNode& node, const std::string& path);
  template <class Root>
  void read_all(Root& root);
  void unknown_key(const YamlEntry& entry, const std::string& section,
                   const std::vector<std::string>& known);
  void add_error(const YamlMark& place, std::string message) {
    errors_.emplace_back(place, std::move(message));
  }
  void misunderstood(std::string path);
  std::string line_of(const YamlMark& place, const std::string& message) const;

  std::vector<std::string> sources_;  // their names
  std::vector<YamlNode> trees_;       // of all sources that could be parsed
  std::vector<std::pair<YamlMark, std::string>> errors_;
  std::vector<GivenOption> given_;
  std::vector<std::pair<std::string, std::string>> options_;  // all, by section and name
};

}  // namespace nystrom
