#include "data/text/json_values.h"

#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/line_reader.h"

namespace nystrom {
namespace {

constexpr int at_end = -1;

bool is_json_blank(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

JsonValues::JsonValues(const std::filesystem::path& file)
    : name_(printable_path(file)), source_(open_byte_source(file)), block_(read_block_bytes) {
  size_ = source_->read(block_);
  if (std::string_view(block_.data(), size_).starts_with(byte_order_mark))
    used_ = byte_order_mark.size();
}

int JsonValues::peek() {
  if (used_ == size_ && size_ > 0) {
    size_ = source_->read(block_);
    used_ = 0;
  }
  return used_ == size_ ? at_end : static_cast<unsigned char>(block_[used_]);
}

char JsonValues::take() {
  const char c = block_[used_++];
  line_ += c == '\n';
  return c;
}

void JsonValues::skip_blanks() {
  while (is_json_blank(peek())) take();
}

void JsonValues::fail(const std::string& what) const {
  throw InputError(fmt::format("{}:{}: {}", name_, line_, what));
}

/// The text of a value, which begins here.
std::string JsonValues::value() {
  std::string text;
  int depth = 0;
  bool quoted = false;
  value_line_ = line_;
  while (true) {
    const int c = peek();
    if (!quoted && depth == 0 && !text.empty() && (c == ',' || c == ']' || is_json_blank(c))) break;
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

std::optional<std::string> JsonValues::next() {
  skip_blanks();
  if (!begun_) {
    array_ = peek() == '[';
    if (array_) {
      take();
      skip_blanks();
    }
  } else if (array_ && !ended_ && peek() == ',') {
    take();
    skip_blanks();
    if (peek() == ']') fail("a comma before the end of the array; remove it");
  } else if (array_ && !ended_ && peek() != ']' && peek() != at_end) {
    fail("expected a comma or the end of the array");
  }
  begun_ = true;
  if (array_ && !ended_ && peek() == at_end)
    fail("the file ends within its array; it is cut: copy it again");
  if (array_ && !ended_ && peek() == ']') {
    take();
    ended_ = true;
    skip_blanks();
  }
  if (ended_ && peek() != at_end) fail("text after the end of the array; remove it");
  if (peek() == at_end) return std::nullopt;
  return value();
}

}  // namespace nystrom
