// The cells of tables' rows.
#pragma once

#include <string>
#include <vector>

#include "data/text/line_reader.h"

namespace nystrom {

/// The cells of a row without quotes.
std::vector<std::string> split_cells(std::string_view line, char separator);

/// The cells of a row by RFC 4180: a cell in double quotes may hold separators, line ends (LF
/// then, also those of CRLF) and doubled quotes. `line` is the last line of `lines`; a row that
/// goes on takes more. Throws a BadRow "file:line: …" for a quote where none may be, and an
/// InputError for one that is not closed, or where the row has several lines.
std::vector<std::string> quoted_cells(LineReader& lines, std::string& line, char separator);

/// Whether quotes in the cells of a table between tabs are those of a writer.
enum class Quotes {
  plain,   ///< ordinary characters
  quoted,  ///< cells in quotes, as pandas writes them
  mixed,   ///< ordinary characters, though some cells look as if a writer had quoted them
};

/// The quotes of a whole file. They are a writer's if each fits RFC 4180, all rows are equally
/// wide, and there is a sign of a writer: doubled quotes in a cell, or two that are the whole cell,
/// a first row of quoted cells alone, a column of quoted cells alone, or rows that only so are
/// equally wide. Below a header without quotes such a column has three rows or more.
Quotes find_quotes(const std::filesystem::path& file, bool header);

}  // namespace nystrom
