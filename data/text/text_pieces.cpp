#include "data/text/text_pieces.h"

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/text/byte_source.h"
#include "data/text/table_reader.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view blanks = " \t\v\f\r";  // white space within a line

/// The position to cut `text`, which has more than `limit` bytes: after white space if possible,
/// else between characters.
std::size_t cut_position(std::string_view text, std::size_t limit) {
  const std::size_t space = text.find_last_of(white_space, limit - 1);
  if (space != text.npos) return space + 1;
  std::size_t cut = limit;
  while (cut > limit - 3 && is_utf8_continuation(text[cut])) --cut;
  return cut;
}

/// Cuts a file into documents, and these into pieces. The bytes need not be valid.
class PlainPieces : public FilePieces {
 public:
  PlainPieces(const fs::path& path, Documents documents, std::size_t piece_bytes)
      : path_(path),
        documents_(documents),
        piece_bytes_(piece_bytes),
        source_(open_byte_source(path)) {}

  std::optional<TextPiece> next() override {
    if (done_) return std::nullopt;
    while (true) {
      if (documents_ == Documents::blank_lines && !inside_) drop_blank_lines();
      const std::string_view view = waiting();
      const Boundary boundary = find_boundary(view);
      if (boundary.end <= piece_bytes_) return take(view, boundary.end, boundary.size, false);
      if (view.size() > piece_bytes_) return take(view, cut(view), 0, true);
      if (!fill()) break;
    }
    done_ = true;
    const std::string_view rest = waiting();
    // No document begins after the last line end. An empty file, however, is an empty document.
    const bool nothing = documents_ == Documents::blank_lines
                             ? !inside_ && taken_ && rest.find_first_not_of(blanks) == rest.npos
                             : rest.empty() && line_ > 1;
    if (nothing) return std::nullopt;
    return take(rest, rest.size(), 0, false);
  }

  std::int64_t position() const override { return source_->position(); }

 private:
  /// The end of a document, and the number of bytes between it and the next document.
  struct Boundary {
    std::size_t end = std::string_view::npos, size = 0;
  };

  std::string_view waiting() const { return std::string_view(buffer_).substr(start_); }

  /// The first boundary in `view`, which a later call continues to search when it has grown.
  Boundary find_boundary(std::string_view view) {
    if (documents_ != Documents::files) {
      for (std::size_t end = view.find('\n', searched_); end != view.npos;
           end = view.find('\n', end + 1)) {
        if (documents_ == Documents::lines) return {end, 1};
        const std::size_t next = view.find_first_not_of(blanks, end + 1);
        if (next == view.npos) {  // the next line may be blank or not
          searched_ = end;
          return {};
        }
        if (view[next] == '\n') return {end, next + 1 - end};
      }
    }
    searched_ = view.size();
    return {};
  }

  /// The position to cut `view`, which is longer than a piece. Never within a boundary.
  std::size_t cut(std::string_view view) const {
    const std::size_t at = cut_position(view, piece_bytes_);
    if (documents_ != Documents::blank_lines) return at;
    const std::size_t word = view.find_last_not_of(white_space, at - 1);
    const bool ends_line =
        word != view.npos && view.substr(word, at - word).find('\n') != view.npos;
    return ends_line ? word + 1 : at;
  }

  /// Drops the blank lines before a document.
  void drop_blank_lines() {
    while (true) {
      const std::string_view view = waiting();
      const std::size_t end = view.find_first_not_of(blanks);
      if (end == view.npos || view[end] != '\n') return;
      start_ += end + 1;
      ++line_;
    }
  }

  TextPiece take(std::string_view view, std::size_t size, std::size_t separator, bool continues) {
    const TextPiece piece{view.substr(0, size), continues, line_, &path_};
    line_ += count_lines(view.substr(0, size + separator));
    start_ += size + separator;
    searched_ = 0;
    inside_ = continues;
    taken_ = true;
    return piece;
  }

  /// Appends a block. Returns false at the end of the file. A CR is held back until the next byte
  /// shows whether it is LF.
  bool fill() {
    buffer_.erase(0, start_);
    start_ = 0;
    const bool first = block_.empty();
    block_.resize(read_block_bytes);
    std::string_view block(block_.data(), source_->read(block_));
    const bool ended = block.empty();
    if (first && block.substr(0, 3) == "\xEF\xBB\xBF") block.remove_prefix(3);
    const bool lone_cr = pending_cr_ && block.substr(0, 1) != "\n";
    if (lone_cr) buffer_ += '\r';
    pending_cr_ = !block.empty() && block.back() == '\r';
    if (pending_cr_) block.remove_suffix(1);
    while (!block.empty()) {
      const std::size_t crlf = std::min(block.find("\r\n"), block.size());
      buffer_ += block.substr(0, crlf);
      block.remove_prefix(std::min(crlf + 1, block.size()));
    }
    return !ended || lone_cr;
  }

  fs::path path_;
  Documents documents_;
  std::size_t piece_bytes_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> block_;
  std::string buffer_;
  std::size_t start_ = 0;     // start of the unread bytes in buffer_
  std::size_t searched_ = 0;  // bytes after start_ that hold no line end
  std::int64_t line_ = 1;
  bool pending_cr_ = false;
  bool inside_ = false;  // whether the last piece continues
  bool taken_ = false;   // whether a piece was returned
  bool done_ = false;
};

/// The texts of a table, a document each.
class TablePieces : public FilePieces {
 public:
  TablePieces(const fs::path& path, TableFormat format, std::string column, std::size_t piece_bytes,
              OnSkip skip)
      : path_(path),
        column_(std::move(column)),
        piece_bytes_(piece_bytes),
        skip_(std::move(skip)),
        rows_(open_rows(path, format, true, {{column_, false}})) {
    const std::vector<std::string>& names = rows_->names();
    if (!names.empty() && std::ranges::find(names, column_) == names.end()) refuse_column();
  }

  std::optional<TextPiece> next() override {
    if (taken_ == text_.size() && !next_text()) return std::nullopt;
    const std::string_view rest = std::string_view(text_).substr(taken_);
    const std::size_t size =
        rest.size() > piece_bytes_ ? cut_position(rest, piece_bytes_) : rest.size();
    taken_ += size;
    return TextPiece{rest.substr(0, size), size < rest.size(), line_, &path_};
  }

  std::int64_t position() const override { return rows_->position(); }

 private:
  /// Reads the next row with a text.
  bool next_text() {
    while (true) {
      try {
        auto row = rows_->next();
        if (!row) break;
        any_row_ = true;
        line_ = row->line;
        if (row->cells[0]) {
          text_ = without_crlf(std::move(*row->cells[0]));
          taken_ = 0;
          return any_text_ = true;
        }
        skip_(SkipReason::no_text, fmt::format("{}:{}", printable_path(path_), line_), 0);
      } catch (const BadRow& error) {
        any_text_ = true;
        skip_(SkipReason::bad_row, error.what(), rows_->row_bytes());
      }
    }
    if (any_row_ && !any_text_) refuse_column();
    return false;
  }

  static std::string without_crlf(std::string text) {
    for (std::size_t at = text.find("\r\n"); at != text.npos; at = text.find("\r\n", at))
      text.erase(at, 1);
    return text;
  }

  [[noreturn]] void refuse_column() const {
    const std::vector<std::string>& names = rows_->names();
    const bool there = std::ranges::find(names, column_) != names.end();
    throw InputError(fmt::format(
        "{}: {}; name the column of the texts by data.text_column", printable_path(path_),
        there ? fmt::format("no row has a text in its column '{}'", printable(column_))
              : no_column(column_, names)));
  }

  fs::path path_;
  std::string column_;
  std::size_t piece_bytes_;
  OnSkip skip_;
  std::unique_ptr<TableReader> rows_;
  std::string text_;
  std::size_t taken_ = 0;  // bytes of text_ that were returned
  std::int64_t line_ = 0;
  bool any_row_ = false, any_text_ = false;
};

}  // namespace

std::unique_ptr<FilePieces> open_pieces(const fs::path& file, const TextForm& form,
                                        std::size_t piece_bytes, OnSkip skip) {
  if (const auto format = table_format_of(file))
    return std::make_unique<TablePieces>(file, *format, form.column, piece_bytes, std::move(skip));
  return std::make_unique<PlainPieces>(file, form.documents, piece_bytes);
}

}  // namespace nystrom
