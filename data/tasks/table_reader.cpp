#include "data/tasks/table_reader.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/check.h"
#include "data/tasks/line_reader.h"

namespace nystrom {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 30;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i > 0 ? ", '" : "'") + printable(names[i]) + "'";
  return names.size() > most ? text + ", …" : text;
}

std::vector<std::string> split(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(separator, begin);
    cells.emplace_back(line.substr(begin, end - begin));
    if (end == line.npos) return cells;
    begin = end + 1;
  }
}

/// The cells of one CSV record, which continues on the next line while a quote is open.
class CsvRecord {
 public:
  CsvRecord(LineReader& lines, std::string& line)
      : lines_(lines), line_(line), first_(lines.line()) {}

  std::vector<std::string> read() {
    while (true) {
      cells_.emplace_back();
      if (at_ < line_.size() && line_[at_] == '"')
        read_quoted();
      else
        read_plain();
      if (at_ == line_.size()) return std::move(cells_);
      ++at_;  // the comma
    }
  }

 private:
  void read_plain() {
    const std::size_t end = std::min(line_.find(',', at_), line_.size());
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
    if (at_ < line_.size() && line_[at_] != ',')
      bad("has text after its closing quote; a quote inside a cell is written twice");
  }

  [[noreturn]] void bad(const char* what) const {
    throw BadRow(fmt::format("{}:{}: column {} {}", lines_.name(), first_, cells_.size(), what));
  }

  LineReader& lines_;
  std::string& line_;
  std::int64_t first_;
  std::size_t at_ = 0;
  std::vector<std::string> cells_;
};

/// A scalar as text; nothing for null, lists and objects.
std::optional<std::string> scalar_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

const char* describe(const nlohmann::json& value) {
  return value.is_array()    ? "a list"
         : value.is_object() ? "an object"
         : value.is_null()   ? "null"
                             : "a single value";
}

}  // namespace

struct TableReader::State {
  LineReader lines;
  TaskFormat format;
  bool header;
  std::vector<WantedColumn> wanted;
  std::vector<std::optional<std::size_t>> places;  // positions of the wanted columns in a row
  std::size_t width = 0;  // cells of a row; without a header at least as many
  std::string line;

  State(const std::filesystem::path& file, TaskFormat kind, bool named,
        std::vector<WantedColumn> columns)
      : lines(file), format(kind), header(named), wanted(std::move(columns)) {}

  std::string place(std::int64_t number) const {
    return fmt::format("{}:{}", lines.name(), number);
  }

  std::vector<std::string> cells() {
    return format == TaskFormat::csv ? CsvRecord(lines, line).read() : split(line, '\t');
  }

  void read_header() {
    do
      require_input(lines.next(line),
                    "{}: the file is empty; expected a row with the names of its columns",
                    lines.name());
    while (line.empty());
    const std::int64_t number = lines.line();
    const std::vector<std::string> names = cells();
    for (const std::string& name : names) check_text(name, place(number));
    width = names.size();
    for (const WantedColumn& column : wanted) {
      const auto found = std::ranges::find(names, column.name);
      if (found == names.end()) {
        require_input(!column.required, "{}: there is no column '{}'{}; columns: {}{}",
                      place(number), printable(column.name), did_you_mean(column.name, names),
                      list_of(names), hint(names));
        places.emplace_back();
        continue;
      }
      const auto again = std::find(found + 1, names.end(), column.name);
      require_input(again == names.end(), "{}: columns {} and {} are both called '{}'",
                    place(number), found - names.begin() + 1, again - names.begin() + 1,
                    printable(column.name));
      places.emplace_back(found - names.begin());
    }
  }

  /// A hint for a header with a single column.
  std::string hint(const std::vector<std::string>& names) const {
    if (names.size() > 1) return "";
    if (format == TaskFormat::tsv && names[0].find(',') != std::string::npos)
      return "; if commas separate them, set task.format to csv";
    if (format == TaskFormat::csv && names[0].find('\t') != std::string::npos)
      return "; if tabs separate them, set task.format to tsv";
    return "";
  }

  void number_columns() {
    for (const WantedColumn& column : wanted) {
      std::size_t number = 0;
      std::from_chars(column.name.data(), column.name.data() + column.name.size(), number);
      require_input(number >= 1,
                    "{}: column '{}' is no number; without a header columns are numbers from 1",
                    lines.name(), printable(column.name));
      places.emplace_back(number - 1);
      if (column.required) width = std::max(width, number);
    }
  }

  TableRow table_row() {
    TableRow row;
    row.line = lines.line();
    std::vector<std::string> all = cells();
    for (std::size_t i = 0; i < all.size(); ++i)
      check_text(all[i], fmt::format("{}: column {}", place(row.line), i + 1));
    const bool fits = header ? all.size() == width : all.size() >= width;
    if (!fits)
      throw BadRow(fmt::format("{}: the row has {} column{}, expected {}{}", place(row.line),
                               all.size(), all.size() == 1 ? "" : "s",
                               header ? "as many as the header: " : "at least ", width));
    for (const auto& at : places)
      row.cells.push_back(at && *at < all.size() ? std::optional(all[*at]) : std::nullopt);
    row.lists.resize(wanted.size());
    return row;
  }

  TableRow json_row() {
    TableRow row;
    row.line = lines.line();
    const nlohmann::json object = parse_line(row.line);
    if (!object.is_object())
      throw BadRow(fmt::format("{}: the line is {}, expected a JSON object", place(row.line),
                               describe(object)));
    for (const WantedColumn& column : wanted) {
      row.cells.emplace_back();
      row.lists.emplace_back();
      const auto found = object.find(column.name);
      if (found != object.end() && !found->is_null())
        read_value(*found, column, row);
      else if (column.required)
        missing_key(object, column.name, row.line);
    }
    return row;
  }

  nlohmann::json parse_line(std::int64_t number) const {
    try {
      return parse_json(line, lines.name());
    } catch (const InputError& error) {  // "file:1:column: what"
      const std::string what = std::string(error.what()).substr(lines.name().size() + 3);
      const bool goes_on = what.find("unexpected end of input") != what.npos;
      throw BadRow(fmt::format("{}:{}{}{}", place(number), what,
                               goes_on ? "; each line must hold one whole JSON object" : "",
                               utf16_hint(line)));
    }
  }

  void read_value(const nlohmann::json& value, const WantedColumn& column, TableRow& row) const {
    const auto wrong = [&](const nlohmann::json& got, const char* expected) {
      throw BadRow(fmt::format("{}: '{}' {} {}, expected {}", place(row.line),
                               printable(column.name), &got == &value ? "is" : "holds",
                               describe(got), expected));
    };
    if (!column.list) {
      row.cells.back() = scalar_text(value);
      if (!row.cells.back()) wrong(value, "a text or a number");
      check_text(*row.cells.back(), place(row.line));
      return;
    }
    if (!value.is_array()) wrong(value, "a list");
    for (const auto& item : value) {
      const auto text = scalar_text(item);
      if (!text) wrong(item, "texts or numbers");
      check_text(*text, place(row.line));
      row.lists.back().push_back(*text);
    }
    row.cells.back() = "";
  }

  [[noreturn]] void missing_key(const nlohmann::json& object, const std::string& name,
                                std::int64_t number) const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    const bool null = object.contains(name);
    throw BadRow(null ? fmt::format("{}: '{}' is null", place(number), printable(name))
                      : fmt::format("{}: there is no key '{}'{}; keys: {}", place(number),
                                    printable(name), did_you_mean(name, keys), list_of(keys)));
  }
};

TableReader::TableReader(const std::filesystem::path& file, TaskFormat format, bool header,
                         std::vector<WantedColumn> columns)
    : state_(std::make_unique<State>(file, format, header, std::move(columns))) {
  if (format == TaskFormat::jsonl) return;
  if (!header) {
    state_->number_columns();
    return;
  }
  try {
    state_->read_header();
  } catch (const BadRow& error) {  // without a header no row can be read
    throw InputError(error.what());
  }
}

TableReader::~TableReader() = default;

std::optional<TableRow> TableReader::next() {
  State& s = *state_;
  do
    if (!s.lines.next(s.line)) return std::nullopt;
  while (s.line.find_first_not_of(s.format == TaskFormat::jsonl ? " \t" : "") == std::string::npos);
  return s.format == TaskFormat::jsonl ? s.json_row() : s.table_row();
}

}  // namespace nystrom
