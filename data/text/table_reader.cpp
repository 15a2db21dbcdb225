#include "data/text/table_reader.h"

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/text/match_files.h"
#include "data/text/row_lines.h"
#include "data/text/table_cells.h"

namespace nystrom {
namespace {

bool is_outside_quotes(char separator, std::string_view line) {
  bool inside = false;
  for (const char c : line) {
    if (c == separator && !inside) return true;
    inside ^= c == '"';
  }
  return false;
}

/// Rows between tabs, commas or semicolons.
class TextRows : public TableReader {
 public:
  TextRows(const std::filesystem::path& file, TableFormat format, bool header,
           std::vector<WantedColumn> columns, EmptyLines empty)
      : TableReader(std::move(columns)),
        rows_(file, empty, [](std::string_view line) { return line.empty(); }),
        header_(header),
        separator_(format == TableFormat::csv ? ',' : '\t'),
        quotes_(format == TableFormat::csv ? Quotes::quoted : find_quotes(file, header)) {
    if (!header) {
      number_columns();
      return;
    }
    try {
      read_header();
    } catch (const BadRow& error) {  // without a header no row can be read
      throw InputError(error.what());
    }
  }

  std::optional<TableRow> next() override {
    if (!rows_.next(width_ == 1 && (header_ || wanted_.size() == 1))) return std::nullopt;
    TableRow row;
    row.line = rows_.lines.line();
    row_bytes_ = 0;
    std::vector<std::string> all = cells();
    if (rows_.lines.line() > row.line) look_for_rows(row.line, all);
    for (std::size_t i = 0; i < all.size(); ++i)
      check_text(all[i], fmt::format("{}: column {}", rows_.place(row.line), i + 1));
    const bool fits = header_ ? all.size() == width_ : all.size() >= width_;
    if (!fits)
      throw BadRow(fmt::format("{}: the row has {} column{}, expected {}{}", rows_.place(row.line),
                               all.size(), all.size() == 1 ? "" : "s",
                               header_ ? "as many as the header: " : "at least ", width_));
    if (header_ && width_ > 1 && all == names_)
      throw BadRow(rows_.place(row.line) + ": repeats the header; remove it");
    for (const auto& at : places_)
      row.cells.push_back(at && *at < all.size() ? std::optional(all[*at]) : std::nullopt);
    row.lists.resize(wanted_.size());
    return row;
  }

  std::string note() const override {
    if (quotes_ != Quotes::mixed) return swallowed_;
    return fmt::format(
        "{}: some cells are in quotes as programs write them, others hold single quotes; all are "
        "taken as they stand: if a program wrote the file, write it as .csv or .jsonl",
        rows_.lines.name());
  }
  std::int64_t row_bytes() const override { return row_bytes_ + std::ssize(rows_.line); }
  std::int64_t position() const override { return rows_.lines.position(); }

 private:
  std::vector<std::string> cells() {
    return quotes_ == Quotes::quoted ? quoted_cells(rows_.lines, rows_.line, separator_)
                                     : split_cells(rows_.line, separator_);
  }

  /// Notes the first cell of several lines whose inner ones all look like rows: a quote that opens
  /// without closing takes them up to the next one.
  void look_for_rows(std::int64_t line, const std::vector<std::string>& all) {
    constexpr std::size_t least = 5;
    for (const std::string& cell : all) {
      row_bytes_ += std::ssize(cell);
      if (!swallowed_.empty() || width_ < 2) continue;
      const std::vector<std::string> lines = split_cells(cell, '\n');
      const bool rows = lines.size() >= least + 2 &&
                        std::all_of(lines.begin() + 1, lines.end() - 1, [&](const auto& each) {
                          return split_cells(each, separator_).size() == width_;
                        });
      if (rows)
        swallowed_ = fmt::format(
            "{}: a cell in quotes goes on to line {}, and the {} lines within look like rows; if "
            "they are, close or double its first quote",
            rows_.place(line), rows_.lines.line(), lines.size() - 2);
    }
  }

  void read_header() {
    do
      require_input(rows_.lines.next(rows_.line),
                    "{}: the file is empty; expected a row with the names of its columns",
                    rows_.lines.name());
    while (rows_.line.empty());
    const std::int64_t number = rows_.lines.line();
    if (separator_ == ',' && !is_outside_quotes(',', rows_.line) &&
        is_outside_quotes(';', rows_.line))
      separator_ = ';';
    check_text(rows_.line, rows_.place(number));  // packed data is told by how it begins
    names_ = cells();
    for (const std::string& name : names_) check_text(name, rows_.place(number));
    width_ = names_.size();
    for (const WantedColumn& column : wanted_) {
      const auto found = std::ranges::find(names_, column.name);
      if (found == names_.end()) {
        require_input(!column.required, "{}: {}{}", rows_.place(number),
                      no_column(column.name, names_), hint(column));
        places_.emplace_back();
        continue;
      }
      const auto again = std::find(found + 1, names_.end(), column.name);
      require_input(again == names_.end(), "{}: columns {} and {} are both called '{}'",
                    rows_.place(number), found - names_.begin() + 1, again - names_.begin() + 1,
                    printable(column.name));
      places_.emplace_back(found - names_.begin());
    }
  }

  /// The remedy where the header has not this column.
  std::string hint(const WantedColumn& column) const {
    const auto holds = [&](char own, char other) {
      return names_.size() == 1 && separator_ == own && names_[0].find(other) != std::string::npos;
    };
    const char* remedy =
        column.option.starts_with("task.") ? "set task.format to " : "let its name end in .";
    if (holds('\t', ',')) return fmt::format("; if commas separate them, {}csv", remedy);
    if (holds(',', '\t')) return fmt::format("; if tabs separate them, {}tsv", remedy);
    return naming_hint(column);
  }

  void number_columns() {
    for (const WantedColumn& column : wanted_) {
      const std::size_t number = number_of<std::size_t>(column.name).value_or(0);
      require_input(number >= 1,
                    "{}: column '{}' is no number; without a header columns are numbers from 1",
                    rows_.lines.name(), printable(column.name));
      places_.emplace_back(number - 1);
      if (column.required) width_ = std::max(width_, number);
    }
  }

  RowLines rows_;
  bool header_;
  char separator_;
  Quotes quotes_;
  std::vector<std::optional<std::size_t>> places_;  // positions of the wanted columns in a row
  std::size_t width_ = 0;                           // cells of a row; without a header at least
  std::int64_t row_bytes_ = 0;                      // of the last row, before its last line
  std::string swallowed_;
};

}  // namespace

std::string list_of_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 30;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i > 0 ? ", '" : "'") + printable(names[i]) + "'";
  return names.size() > most ? text + ", …" : text;
}

std::string no_column(const std::string& name, const std::vector<std::string>& names) {
  const bool of_excel = !names.empty() && names[0].starts_with("sep="),
             semicolons = std::ranges::any_of(
                 names, [](const std::string&each) { return each.find(';') != each.npos; });
  return fmt::format("there is no column '{}'{}; columns: {}{}", printable(name),
                     did_you_mean(name, names), list_of_names(names),
                     of_excel     ? "; remove the line 'sep=', which is for Excel alone"
                     : semicolons ? "; if semicolons separate them, put names with commas in quotes"
                                  : "");
}

std::string naming_hint(const WantedColumn& column) {
  return column.option.empty() ? "" : "; name the column by " + column.option;
}

std::optional<TableFormat> table_format_of(const std::filesystem::path& file) {
  const std::string ending = name_ending(file);
  if (ending == ".tsv") return TableFormat::tsv;
  if (ending == ".csv") return TableFormat::csv;
  if (ending == ".jsonl" || ending == ".ndjson") return TableFormat::jsonl;
  if (ending == ".json") return TableFormat::json;
  return std::nullopt;
}

std::unique_ptr<TableReader> open_rows(const std::filesystem::path& file, TableFormat format,
                                       bool header, std::vector<WantedColumn> columns,
                                       EmptyLines empty_lines) {
  if (format == TableFormat::jsonl || format == TableFormat::json)
    return open_json_rows(file, format, std::move(columns), empty_lines);
  return std::make_unique<TextRows>(file, format, header, std::move(columns), empty_lines);
}

}  // namespace nystrom
