// Rows of TSV, CSV, JSON Lines and JSON files, read one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/line_reader.h"

namespace nystrom {

/// The format of a table.
enum class TableFormat {
  tsv,    ///< cells between tabs
  csv,    ///< RFC 4180: cells between commas, or semicolons if the header has these alone
  jsonl,  ///< one JSON object a line
  json,   ///< an array of objects, objects one after another, or one object of arrays
};

/// The format that the ending of a file's name tells, before .gz or .zst and in any case: .tsv,
/// .csv, .jsonl, .ndjson or .json.
std::optional<TableFormat> table_format_of(const std::filesystem::path& file);

/// Whether an empty line is a row.
enum class EmptyLines {
  skip,  ///< it is none
  /// It is one with an empty cell, where rows have one cell. Else it is a bad row, unless only
  /// empty lines follow.
  are_rows,
};

/// A column to read.
struct WantedColumn {
  std::string name;      ///< a number from 1 if there is no header
  bool required = true;  ///< whether every row must have it
  bool list = false;     ///< JSON only: the value is a list of texts
  bool names = false;    ///< or an object of this list, "text", and of names of its items, "label"
  bool json = false;     ///< JSON only: any value, and the cell is its JSON
  std::string hint{};    ///< the end of the message about a list in the place of a single value
  std::string option{};  ///< the option that names it, for messages
};

/// A row of a table.
struct TableRow {
  /// The cells in the order of the wanted columns. Nothing for an absent optional column.
  std::vector<std::optional<std::string>> cells;
  /// The texts of columns that are lists, in the same order.
  std::vector<std::vector<std::string>> lists;
  std::vector<std::string> names;  ///< of the items of the list that has names
  std::int64_t line = 0;           ///< line where the row begins, from 1
  std::int64_t number = 0;         ///< of a row of a JSON object of columns, from 1; else 0

  /// "FILE:line", or of an object of columns "FILE: row 7".
  std::string place(const std::string& file) const {
    return number > 0 ? file + ": row " + std::to_string(number)
                      : file + ":" + std::to_string(line);
  }
};

/// Reads one file sequentially in the memory of one row. A UTF-8 byte order mark at the beginning
/// is dropped, and CRLF ends a row as LF does. Every cell is valid UTF-8 without NUL.
///
/// tsv and csv with a header: names are unique, and every row has as many cells as the header.
/// Without a header: rows have at least as many cells as the largest wanted number. tsv: quotes are
/// ordinary characters, unless find_quotes shows that a writer put them there.
/// jsonl and json: rows are objects. Whole numbers are read as written and others as the nearest
/// doubles (1.50 as 1.5), true and false as words, and null as an absent key.
class TableReader {
 public:
  virtual ~TableReader() = default;

  /// The next row; nothing after the last. Throws a BadRow "file:line: …" for an unreadable row.
  /// Throws an InputError when reading cannot continue: for an unclosed quote or broken
  /// compression.
  virtual std::optional<TableRow> next() = 0;
  /// A remark for the user on how the file is read; empty if it is sound.
  virtual std::string note() const { return ""; }
  /// The bytes of the last row.
  virtual std::int64_t row_bytes() const = 0;
  /// The number of bytes of the file on disk that have been read.
  virtual std::int64_t position() const = 0;

  /// The names of the columns: those of the header, or the keys of the first object once it was
  /// read. Empty without a header.
  const std::vector<std::string>& names() const { return names_; }

 protected:
  explicit TableReader(std::vector<WantedColumn> columns) : wanted_(std::move(columns)) {}

  std::vector<WantedColumn> wanted_;
  std::vector<std::string> names_;
};

/// The form of a file that begins with `text` and is no plain text, and what to do, for messages:
/// "looks like JSON Lines, …". Empty for text.
std::string other_form(std::string_view text);

/// Opens a file, which may be compressed (.gz, .zst). Throws an InputError "file:line: …" for a
/// wrong header, with the names of its columns.
std::unique_ptr<TableReader> open_rows(const std::filesystem::path& file, TableFormat format,
                                       bool header, std::vector<WantedColumn> columns,
                                       EmptyLines empty_lines = EmptyLines::skip);

/// "; name the column by task.columns.text" for messages about a column that is not there; empty
/// without an option.
std::string naming_hint(const WantedColumn& column);

/// "there is no column 'txt'; did you mean 'text'; columns: …" for messages.
std::string no_column(const std::string& name, const std::vector<std::string>& names);

/// Names in quotes, for messages; only the first of many.
std::string list_of_names(const std::vector<std::string>& names);

}  // namespace nystrom
