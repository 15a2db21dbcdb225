#include "data/text/table_cells.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {
namespace {

/// The cells of one row, which continues on the next line while a quote is open.
class QuotedRow {
 public:
  QuotedRow(LineReader& lines, std::string& line, char separator)
      : lines_(lines), line_(line), separator_(separator), first_(lines.line()) {}

  std::vector<std::string> read() {
    while (true) {
      cells_.emplace_back();
      if (at_ < line_.size() && line_[at_] == '"')
        read_quoted();
      else
        read_plain();
      if (at_ == line_.size()) return std::move(cells_);
      ++at_;  // the separator
    }
  }

 private:
  void read_plain() {
    const std::size_t end = std::min(line_.find(separator_, at_), line_.size());
    cells_.back().assign(line_, at_, end - at_);
    if (cells_.back().find('"') != std::string::npos)
      bad("has a quote inside a cell that does not begin with one; put the whole cell in quotes "
          "and double those inside");
    at_ = end;
  }

  void read_quoted() {
    const std::int64_t opened = lines_.line();
    std::string& cell = cells_.back();
    ++at_;
    while (true) {
      const std::size_t end = line_.find('"', at_);
      cell.append(line_, at_, end == line_.npos ? line_.npos : end - at_);
      if (end == line_.npos) {
        require_input(cell.size() <= max_row_bytes && lines_.next(line_),
                      "{}:{}: the quote that opens in column {} is not closed", lines_.name(),
                      opened, cells_.size());
        cell += '\n';
        at_ = 0;
      } else if (line_.compare(end + 1, 1, "\"") == 0) {
        cell += '"';
        at_ = end + 2;
      } else {
        at_ = end + 1;
        break;
      }
    }
    if (at_ < line_.size() && line_[at_] != separator_)
      bad("has text after its closing quote; a quote inside a cell is written twice");
  }

  [[noreturn]] void bad(const char* what) const {
    throw BadRow(fmt::format("{}:{}: column {} {}", lines_.name(), first_, cells_.size(), what));
  }

  LineReader& lines_;
  std::string& line_;
  char separator_;
  std::int64_t first_;
  std::size_t at_ = 0;
  std::vector<std::string> cells_;
};

bool begins_and_ends_with_quote(const std::string& cell) {
  return cell.size() >= 2 && cell.front() == '"' && cell.back() == '"';
}

/// Whether some cell of a line is in quotes and has doubled ones inside, and no single one.
bool has_doubled_quotes(const std::vector<std::string>& cells) {
  return std::ranges::any_of(cells, [](const std::string& cell) {
    if (!begins_and_ends_with_quote(cell)) return false;
    const std::string_view inner = std::string_view(cell).substr(1, cell.size() - 2);
    std::size_t quotes = 0;
    for (std::size_t at = inner.find('"'); at != inner.npos; at = inner.find('"', at + 2)) {
      if (inner.substr(at, 2) != "\"\"") return false;
      ++quotes;
    }
    return quotes > 0;
  });
}

/// What a file shows when its rows are read in one of the two ways.
struct Reading {
  bool fits = true;     // all rows are sound and equally wide
  bool sign = false;    // of a writer
  bool quotes = false;  // whether there is one at all
};

Reading read_plainly(const std::filesystem::path& file) {
  LineReader lines(file);
  Reading reading;
  std::size_t width = 0;
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    const auto tabs = static_cast<std::size_t>(std::ranges::count(line, '\t'));
    const bool first = width == 0;
    if (first) width = tabs + 1;
    reading.fits &= tabs + 1 == width;
    if (line.find('"') == line.npos) continue;
    reading.quotes = true;
    const std::vector<std::string> cells = split_cells(line, '\t');
    reading.sign |= has_doubled_quotes(cells) ||
                    (first && std::ranges::all_of(cells, begins_and_ends_with_quote));
  }
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
  return QuotedRow(lines, line, separator).read();
}

Quotes find_quotes(const std::filesystem::path& file) {
  const Reading plain = read_plainly(file);
  if (!plain.quotes) return Quotes::plain;
  const Reading quoted = read_with_quotes(file);
  if (quoted.fits && (plain.sign || quoted.sign || !plain.fits)) return Quotes::quoted;
  return plain.sign ? Quotes::mixed : Quotes::plain;
}

}  // namespace nystrom
