// The lines that hold rows of a table, texts or vectors.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "data/text/table_reader.h"

namespace nystrom {

/// The lines of a file that hold rows, of which some go on over several.
class RowLines {
 public:
  /// `is_empty`: whether a line counts as empty. `remedy` ends the message about one.
  RowLines(const std::filesystem::path& file, EmptyLines empty, bool (*is_empty)(std::string_view),
           std::string_view remedy = "; remove it, or complete the row")
      : lines(file), empty_(empty), is_empty_(is_empty), remedy_(remedy) {}

  /// Stores the next line that is no empty one in `line`. Throws a BadRow for an empty line that is
  /// a row without a cell. `one_cell`: rows have one, which may be empty.
  bool next(bool one_cell) {
    if (!std::exchange(held_, false)) {
      first_empty_ = 0;
      while (true) {
        if (!lines.next(line)) return false;
        if (!is_empty_(line) || (one_cell && empty_ == EmptyLines::are_rows)) break;
        if (first_empty_ == 0) first_empty_ = lines.line();
      }
    }
    if (empty_ == EmptyLines::skip || first_empty_ == 0) return true;
    held_ = true;
    const std::int64_t number = first_empty_;
    first_empty_ = number + 1 < lines.line() ? number + 1 : 0;
    throw BadRow(fmt::format("{}:{}: the line is empty{}", lines.name(), number, remedy_));
  }

  std::string place(std::int64_t number) const {
    return fmt::format("{}:{}", lines.name(), number);
  }

  LineReader lines;
  std::string line;

 private:
  EmptyLines empty_;
  bool (*is_empty_)(std::string_view);
  std::string_view remedy_;
  std::int64_t first_empty_ = 0;  // of the empty lines before `line` that were not yet thrown
  bool held_ = false;             // whether `line` was read and not yet returned
};

/// Opens a file of JSON objects.
std::unique_ptr<TableReader> open_json_rows(const std::filesystem::path& file, TableFormat format,
                                            std::vector<WantedColumn> columns, EmptyLines empty);

}  // namespace nystrom
