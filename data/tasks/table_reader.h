// Rows of TSV, CSV and JSON Lines files, read one by one.
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

/// An unreadable row, after which the reader can continue with the next row.
class BadRow : public InputError {
 public:
  using InputError::InputError;
};

/// The largest length of a line. Files with longer lines are not tables.
inline constexpr std::size_t max_row_bytes = std::size_t{64} << 20;

/// A column to read.
struct WantedColumn {
  std::string name;      ///< a number from 1 if there is no header
  bool required = true;  ///< whether every row must have it
  bool list = false;     ///< jsonl only: the value is a list of texts
};

/// A row of a table.
struct TableRow {
  /// The cells in the order of the wanted columns. Nothing for an absent optional column.
  std::vector<std::optional<std::string>> cells;
  /// The texts of columns that are lists, in the same order.
  std::vector<std::vector<std::string>> lists;
  std::int64_t line = 0;  ///< line where the row begins, from 1
};

/// Reads one file sequentially in the memory of one row. A UTF-8 byte order mark at the beginning
/// is dropped, and CRLF counts as LF. Empty lines are skipped, except in tsv and csv files whose
/// rows have one cell, which may be empty. Every cell is valid UTF-8 without NUL.
///
/// tsv and csv with a header: names are unique, and every row has as many cells as the header.
/// Without a header: rows have at least as many cells as the largest wanted number. jsonl: each
/// line is an object. Numbers are read as written, true and false as words, and null as an absent
/// key.
class TableReader {
 public:
  /// `format` is tsv, csv or jsonl. The file may be compressed (.gz, .zst). Throws an InputError
  /// "file:line: …" for a wrong header, with the names of its columns.
  TableReader(const std::filesystem::path& file, TaskFormat format, bool header,
              std::vector<WantedColumn> columns);
  ~TableReader();
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  /// The next row; nothing after the last. Throws a BadRow "file:line: …" for an unreadable row.
  /// Throws an InputError when reading cannot continue: for an unclosed quote or broken
  /// compression.
  std::optional<TableRow> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nystrom
