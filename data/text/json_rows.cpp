// Tables whose rows are JSON objects.
#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/check.h"
#include "data/text/byte_source.h"
#include "data/text/row_lines.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;

/// A scalar as text; nothing for null, lists and objects.
std::optional<std::string> scalar_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

/// Reads the items of one array, or values that follow one another as in JSON Lines, in the memory
/// of one value. The text of a value is found by its brackets and quotes, and not parsed.
class JsonValues {
 public:
  explicit JsonValues(const std::filesystem::path& file)
      : name_(printable_path(file)), source_(open_byte_source(file)), block_(read_block_bytes) {
    size_ = source_->read(block_);
    if (std::string_view(block_.data(), size_).starts_with(byte_order_mark))
      used_ = byte_order_mark.size();
  }

  /// The text of the next value; nothing after the last. Throws an InputError "file:line: …" for a
  /// value beyond max_row_bytes, for one that does not end, and for anything else between values.
  std::optional<std::string> next() {
    skip_blanks();
    const bool first = !std::exchange(begun_, true);
    if (first) array_ = peek() == '[';
    const bool inside = array_ && !ended_;
    if (inside && (first || peek() == ',')) {
      take();
      skip_blanks();
      if (!first && peek() == ']') fail("a comma before the end of the array; remove it");
    } else if (inside && peek() != ']' && peek() != at_end) {
      fail("expected a comma or the end of the array");
    }
    if (inside && peek() == at_end)
      fail("the file ends within its array; it is cut: copy it again");
    if (inside && peek() == ']') {
      take();
      ended_ = true;
      skip_blanks();
    }
    if (ended_ && peek() != at_end) fail("text after the end of the array; remove it");
    if (peek() == at_end) return std::nullopt;
    return value();
  }

  /// The line where the last value begins, from 1.
  std::int64_t line() const { return value_line_; }
  /// Whether the file is one array.
  bool is_array() const { return array_; }
  /// The number of bytes of the file on disk that have been read.
  std::int64_t position() const { return source_->position(); }

 private:
  static constexpr int at_end = -1;

  static bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  int peek() {
    if (used_ == size_ && size_ > 0) {
      size_ = source_->read(block_);
      used_ = 0;
    }
    return used_ == size_ ? at_end : static_cast<unsigned char>(block_[used_]);
  }

  char take() {
    const char c = block_[used_++];
    line_ += c == '\n';
    return c;
  }

  void skip_blanks() {
    while (is_blank(peek())) take();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", name_, line_, what));
  }

  /// The text of a value, which begins here.
  std::string value() {
    std::string text;
    int depth = 0;
    bool quoted = false;
    value_line_ = line_;
    while (true) {
      const int c = peek();
      if (!quoted && depth == 0 && !text.empty() && (c == ',' || c == ']' || is_blank(c))) break;
      if (c == at_end) {
        if (quoted || depth > 0)
          fail(
              fmt::format("the file ends within the JSON value that begins in line {}; it is cut: "
                          "copy it again",
                          value_line_));
        break;
      }
      text += take();
      if (text.size() > max_row_bytes)
        fail(
            fmt::format("the JSON value that begins in line {} is longer than {} bytes; write one "
                        "object a row",
                        value_line_, max_row_bytes));
      if (quoted) {
        if (c == '\\' && peek() != at_end) text += take();
        quoted = c != '"';
        continue;
      }
      quoted = c == '"';
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      if (depth <= 0 && (c == '}' || c == ']')) break;
    }
    return text;
  }

  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> block_;
  std::size_t used_ = 0, size_ = 0;  // in block_
  std::int64_t line_ = 1, value_line_ = 1;
  bool begun_ = false, array_ = false, ended_ = false;
};

/// Rows that are JSON objects: a line each, or the values of a file.
class JsonRows : public TableReader {
 public:
  JsonRows(const std::filesystem::path& file, TableFormat format, std::vector<WantedColumn> columns,
           EmptyLines empty)
      : TableReader(std::move(columns)), name_(printable_path(file)) {
    if (format == TableFormat::jsonl)
      lines_.emplace(file, empty, [](std::string_view line) {
        return line.find_first_not_of(" \t") == line.npos;
      });
    else
      values_.emplace(file);
  }

  std::optional<TableRow> next() override {
    if (!columns_.is_null()) return column_row();
    if (!next_text()) return std::nullopt;
    const Json object = parse();
    if (!object.is_object())
      throw BadRow(fmt::format(
          "{}: the {} is {}, expected a JSON object{}", place(), lines_ ? "line" : "value",
          json_kind(object),
          lines_ && object.is_array() ? "; a file that is one JSON array ends in .json" : ""));
    const bool first = names_.empty();
    if (first)
      for (const auto& [key, value] : object.items()) names_.push_back(key);
    if (first && holds_columns(object)) {
      columns_ = object;
      return column_row();
    }
    TableRow row = empty_row();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const auto found = object.find(wanted_[i].name);
      if (found != object.end() && !found->is_null())
        read_value(*found, i, row);
      else if (wanted_[i].required)
        missing_key(object, wanted_[i]);
    }
    return row;
  }

  std::int64_t row_bytes() const override {
    const auto rows = columns_.is_null() ? 1 : static_cast<std::int64_t>(rows_of_columns());
    return std::ssize(text()) / std::max<std::int64_t>(rows, 1);
  }
  std::int64_t position() const override {
    return lines_ ? lines_->lines.position() : values_->position();
  }

 private:
  bool next_text() {
    if (lines_) return lines_->next(false);
    auto value = values_->next();
    if (value) value_ = std::move(*value);
    return value.has_value();
  }
  const std::string& text() const { return lines_ ? lines_->line : value_; }
  std::int64_t line() const { return lines_ ? lines_->lines.line() : values_->line(); }
  std::string place() const { return fmt::format("{}:{}", name_, line()); }

  TableRow empty_row() const {
    TableRow row;
    row.line = line();
    row.cells.resize(wanted_.size());
    row.lists.resize(wanted_.size());
    return row;
  }

  Json parse() const {
    try {
      return parse_json(text(), name_, keep_digits);
    } catch (const InputError& error) {  // "file:line:column: what"
      std::string what = std::string(error.what()).substr(name_.size() + 1);
      std::int64_t within = 1;
      const auto [end, parsed] = std::from_chars(what.data(), what.data() + what.size(), within);
      what = what.substr(static_cast<std::size_t>(end - what.data()));
      const bool goes_on = lines_ && what.find("unexpected end of input") != what.npos;
      throw BadRow(fmt::format("{}:{}{}{}{}", name_, line() + within - 1, what,
                               goes_on ? "; each line must hold one whole JSON object" : "",
                               encoding_remedy(text())));
    }
  }

  /// Whether the one object of a JSON file has a list of cells for each column.
  bool holds_columns(const Json& object) const {
    if (!values_ || values_->is_array()) return false;
    bool any = false;
    for (const WantedColumn& column : wanted_) {
      const auto found = object.find(column.name);
      if (found == object.end() && !column.required) continue;
      if (found == object.end() || !found->is_array()) return false;
      if (column.list && !found->empty() && !(*found)[0].is_structured()) return false;
      any = true;
    }
    return any;
  }

  /// The object as rows: their number. Throws an InputError for columns of several lengths.
  std::size_t rows_of_columns() const {
    std::optional<std::size_t> rows;
    for (const WantedColumn& column : wanted_) {
      if (!columns_.contains(column.name)) continue;
      const std::size_t size = columns_[column.name].size();
      require_input(rows.value_or(size) == size, "{}: column '{}' has {} values, another {}",
                    place(), printable(column.name), size, rows.value_or(0));
      rows = size;
    }
    return *rows;
  }

  /// The next row of columns_.
  std::optional<TableRow> column_row() {
    if (next_ == rows_of_columns()) {
      const bool more = next_text();  // which moves place()
      require_input(!more, "{}: a second value after an object of columns; remove it", place());
      return std::nullopt;
    }
    const std::size_t at = next_++;
    TableRow row = empty_row();
    row.number = static_cast<std::int64_t>(next_);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const Json value =
          columns_.contains(wanted_[i].name) ? columns_[wanted_[i].name][at] : Json();
      if (!value.is_null())
        read_value(value, i, row);
      else if (wanted_[i].required)
        throw BadRow(fmt::format("{}: value {} of '{}' is null", place(), at + 1,
                                 printable(wanted_[i].name)));
    }
    return row;
  }

  void read_value(const Json& value, std::size_t column, TableRow& row) const {
    const auto wrong = [&](const Json& got, const char* expected) {
      const bool pandas = values_ && &got == &value && got.is_object();
      const std::string which = columns_.is_null() ? "" : fmt::format("value {} of ", next_);
      throw BadRow(fmt::format("{}: {}'{}' {} {}, expected {}{}", place(), which,
                               printable(wanted_[column].name), &got == &value ? "is" : "holds",
                               json_kind(got), expected,
                               pandas ? "; pandas writes rows by to_json(orient='records')"
                               : got.is_array() ? wanted_[column].hint.c_str()
                                                : ""));
    };
    std::optional<std::string>& cell = row.cells[column];
    if (wanted_[column].json) {
      cell = value.dump();
      return;
    }
    if (!wanted_[column].list) {
      cell = scalar_text(value);
      if (!cell) wrong(value, "a text or a number");
      return check_text(*cell, place());
    }
    const auto texts = [&](const Json& list) {
      if (!list.is_array()) wrong(list, "a list");
      std::vector<std::string> result;
      for (const auto& item : list) {
        const auto text = scalar_text(item);
        if (!text) wrong(item, "texts or numbers");
        check_text(*text, place());
        result.push_back(*text);
      }
      return result;
    };
    const bool named = wanted_[column].names && value.contains("text") && value.contains("label");
    row.lists[column] = texts(named ? value["text"] : value);
    if (named) row.names = texts(value["label"]);
    cell = "";
  }

  [[noreturn]] void missing_key(const Json& object, const WantedColumn& column) const {
    const std::string& name = column.name;
    if (object.contains(name))
      throw BadRow(fmt::format("{}: '{}' is null", place(), printable(name)));
    std::vector<std::string> keys;
    std::string inner;  // an array of rows
    for (const auto& [key, value] : object.items()) {
      keys.push_back(key);
      if (value.is_array() && !value.empty() && value[0].is_object()) inner = key;
    }
    throw BadRow(fmt::format("{}: there is no key '{}'{}; keys: {}{}", place(), printable(name),
                             did_you_mean(name, keys), list_of_names(keys),
                             !lines_ && !inner.empty()
                                 ? fmt::format("; if '{0}' holds the rows, take them out: jq '.{0}'"
                                               " OLD > NEW",
                                               printable(inner))
                             : std::ranges::find(names_, name) == names_.end() ? naming_hint(column)
                                                                               : ""));
  }

  std::string name_;
  std::optional<RowLines> lines_;     // of jsonl
  std::optional<JsonValues> values_;  // of json
  std::string value_;
  Json columns_;
  std::size_t next_ = 0;  // row of columns_
};

}  // namespace

std::string other_form(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.starts_with('{') && Json::parse(line, nullptr, false).is_object())
    return "looks like JSON Lines, and is read as text with all braces and keys; end its name in "
           ".jsonl to read a column";
  // A quotation has a space behind the mark.
  if (line.starts_with('>') && line.size() > 1 && line[1] != ' ' && line[1] != '>')
    return "looks like FASTA, and is read as text, headers too; write each sequence as a line of "
           "its own, without its header";
  return "";
}

std::unique_ptr<TableReader> open_json_rows(const std::filesystem::path& file, TableFormat format,
                                            std::vector<WantedColumn> columns, EmptyLines empty) {
  return std::make_unique<JsonRows>(file, format, std::move(columns), empty);
}

}  // namespace nystrom
