#include "data/text/table_cells.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {
namespace {

/// Reads the cell in quotes that begins at `at`, which may take more lines. Returns the position
/// behind it. `column` counts from 1.
std::size_t read_quoted(LineReader& lines, std::string& line, std::size_t at, std::size_t column,
                        std::string& cell) {
  const std::int64_t opened = lines.line();
  ++at;
  while (true) {
    const std::size_t end = line.find('"', at);
    cell.append(line, at, end == line.npos ? line.npos : end - at);
    if (end == line.npos) {
      require_input(cell.size() <= max_row_bytes && lines.next(line),
                    "{}:{}: the quote that opens in column {} is not closed", lines.name(), opened,
                    column);
      cell += '\n';
      at = 0;
    } else if (line.compare(end + 1, 1, "\"") == 0) {
      cell += '"';
      at = end + 2;
    } else {
      return end + 1;
    }
  }
}

bool begins_and_ends_with_quote(const std::string& cell) {
  return cell.size() >= 2 && cell.front() == '"' && cell.back() == '"';
}

/// Whether some cell of a line is in quotes and empty, or has doubled ones inside, and no single
/// one.
bool has_doubled_quotes(const std::vector<std::string>& cells) {
  return std::ranges::any_of(cells, [](const std::string& cell) {
    if (!begins_and_ends_with_quote(cell)) return false;
    const std::string_view inner = std::string_view(cell).substr(1, cell.size() - 2);
    std::size_t quotes = 0;
    for (std::size_t at = inner.find('"'); at != inner.npos; at = inner.find('"', at + 2)) {
      if (inner.substr(at, 2) != "\"\"") return false;
      ++quotes;
    }
    return quotes > 0 || inner.empty();
  });
}

/// The signs that a file shows when its rows are read in one of the two ways.
struct Reading {
  bool fits = true;     // all rows are sound and equally wide
  bool sign = false;    // of a writer
  bool quotes = false;  // whether there is one at all
};

Reading read_plainly(const std::filesystem::path& file, bool header) {
  LineReader lines(file);
  Reading reading;
  std::size_t width = 0;
  std::vector<bool> quoted;  // the columns whose cells so far are all in quotes
  // A header without quotes says nothing of the rows, if there are more than two.
  std::int64_t rows = 0, fewest = 1;
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    const auto tabs = static_cast<std::size_t>(std::ranges::count(line, '\t'));
    const bool first = width == 0;
    if (first) quoted.assign(width = tabs + 1, true);
    reading.fits &= tabs + 1 == width;
    if (line.find('"') == line.npos) {
      if (first && header)
        fewest = 3;
      else
        quoted.assign(width, false);
      continue;
    }
    ++rows;
    reading.quotes = true;
    const std::vector<std::string> cells = split_cells(line, '\t');
    reading.sign |= has_doubled_quotes(cells) ||
                    (first && std::ranges::all_of(cells, begins_and_ends_with_quote));
    for (std::size_t i = 0; i < width; ++i)
      quoted[i] = quoted[i] && i < cells.size() && begins_and_ends_with_quote(cells[i]);
  }
  reading.sign |= rows >= fewest && std::ranges::find(quoted, true) != quoted.end();
  return reading;
}

Reading read_with_quotes(const std::filesystem::path& file) {
  LineReader lines(file);
  Reading reading;
  std::size_t width = 0;
  try {
    for (std::string line; lines.next(line);) {
      if (line.empty()) continue;
      const std::int64_t first = lines.line();
      const std::size_t cells = quoted_cells(lines, line, '\t').size();
      if (width == 0) width = cells;
      reading.fits &= cells == width;
      reading.sign |= width == 1 && lines.line() > first;
      if (!reading.fits) break;
    }
  } catch (const InputError&) {
    reading.fits = false;
  }
  return reading;
}

}  // namespace

std::vector<std::string> split_cells(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(separator, begin);
    cells.emplace_back(line.substr(begin, end - begin));
    if (end == line.npos) return cells;
    begin = end + 1;
  }
}

std::vector<std::string> quoted_cells(LineReader& lines, std::string& line, char separator) {
  const std::int64_t first = lines.line();
  std::vector<std::string> cells;
  const auto require_form = [&](bool good, const char* what) {
    if (good) return;
    // A stray quote has joined several rows: to go on would leave them out.
    require_input(lines.line() == first, "{}:{}: column {}, which goes on to line {}, {}",
                  lines.name(), first, cells.size(), lines.line(), what);
    throw BadRow(fmt::format("{}:{}: column {} {}", lines.name(), first, cells.size(), what));
  };
  for (std::size_t at = 0;; ++at) {  // a separator stands before `at`
    std::string& cell = cells.emplace_back();
    if (at < line.size() && line[at] == '"') {
      at = read_quoted(lines, line, at, cells.size(), cell);
      require_form(at == line.size() || line[at] == separator,
                   "has text after its closing quote; a quote inside a cell is written twice");
    } else {
      const std::size_t end = std::min(line.find(separator, at), line.size());
      cell.assign(line, at, end - at);
      require_form(cell.find('"') == cell.npos,
                   "has a quote inside a cell that does not begin with one; put the whole cell in "
                   "quotes and double those inside");
      at = end;
    }
    if (at == line.size()) return cells;
  }
}

Quotes find_quotes(const std::filesystem::path& file, bool header) {
  const Reading plain = read_plainly(file, header);
  if (!plain.quotes) return Quotes::plain;
  const Reading quoted = read_with_quotes(file);
  if (quoted.fits && (plain.sign || quoted.sign || !plain.fits)) return Quotes::quoted;
  return plain.sign ? Quotes::mixed : Quotes::plain;
}

}  // namespace nystrom
