// Rows of named cells out of TSV, CSV and JSON Lines files, one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "data/tasks/task_config.h"

namespace nystrom {

/// A row that cannot be read while the ones behind it can: the reader goes on there when asked
/// again.
class BadRow : public InputError {
 public:
  using InputError::InputError;
};

/// Lines longer than this are refused: such a file is no table.
inline constexpr std::size_t max_row_bytes = std::size_t{64} << 20;

/// A column that is asked for.
struct WantedColumn {
  std::string name;      ///< a number from 1 where there is no header
  bool required = true;  ///< in every row
  bool list = false;     ///< jsonl alone: the value is a list of texts
};

struct TableRow {
  std::vector<std::optional<std::string>>
      cells;  ///< in the order of the wanted columns; nothing where an optional one is absent
  std::vector<std::vector<std::string>> lists;  ///< likewise: the texts of columns that are lists
  std::int64_t line = 0;                        ///< where the row begins, from 1
};

/// Reads one file from front to back in memory of one row. A UTF-8 byte order mark at the beginning
/// is dropped, CRLF is LF; empty lines are left out (tsv, csv: unless one empty cell is all that a
/// row has). Every cell is valid UTF-8 without NUL.
///
/// tsv, csv with a header: names must differ, and every row must have as many cells as the header.
/// Without: at least as many as the largest number that is asked for. jsonl: an object a line,
/// numbers as written, true and false as words, null as if the key were absent.
class TableReader {
 public:
  /// `format` is tsv, csv or jsonl, the file maybe compressed (.gz, .zst). InputError "file:line:
  /// …" for what is wrong about the header, naming the columns there are.
  TableReader(const std::filesystem::path& file, TaskFormat format, bool header,
              std::vector<WantedColumn> columns);
  ~TableReader();
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  /// The next row, nothing after the last. BadRow "file:line: …" for a row that is left out;
  /// InputError for what ends the reading: an unclosed quote, broken compression.
  std::optional<TableRow> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nystrom
