// The texts of a pretraining run by their source: entries of data.train and data.validation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/base/problem.h"

namespace nystrom {

/// Texts of one source. In files a text alone is a path or pattern without a name.
struct TextSource {
  std::vector<std::string> files = {};
  std::string name = "";
  std::optional<double> weight = std::nullopt;
  bool operator==(const TextSource&) const = default;

  static TextSource of_text(const std::string& pattern) { return {.files = {pattern}}; }
  std::optional<std::string> as_text() const {
    const bool is_pattern = files.size() == 1 && name.empty() && !weight;
    return is_pattern ? std::optional(files[0]) : std::nullopt;
  }
};

template <class V>
void fields(V& v, TextSource& c) {
  v(c.files, "files", "the source's text files and tables: paths and patterns");
  v(c.name, "name", "the source's name in metrics and reports: letters, digits, '-' and '_'");
  v(c.weight, "weight",
    "in data.train: how often a sequence is drawn from the source, beside the weights of the "
    "others; null: as often as it is large",
    positive);
}

/// The sources of data.train or data.validation: patterns alone are one source without a name.
std::vector<TextSource> sources_of(const std::vector<TextSource>& entries);

/// The patterns of all entries.
std::vector<std::string> patterns_of(const std::vector<TextSource>& entries);

/// The rules that the entries of data.train and data.validation break.
Problems source_problems(const std::vector<TextSource>& train,
                         const std::vector<TextSource>& validation);

}  // namespace nystrom
