#include "data/text/text.h"

#include <algorithm>
#include <functional>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/text/byte_source.h"
#include "data/text/line_reader.h"
#include "data/text/match_files.h"
#include "data/text/table_reader.h"

namespace nystrom {

/// The documents of one file in pieces.
class FilePieces {
 public:
  virtual ~FilePieces() = default;
  /// The next piece; nothing after the last. The bytes of a plain file need not be valid UTF-8.
  virtual std::optional<TextPiece> next() = 0;
  /// The number of bytes of the file on disk that have been read.
  virtual std::int64_t position() const = 0;
};

namespace {

namespace fs = std::filesystem;

constexpr std::string_view white_space = " \t\n\v\f\r";
constexpr std::string_view blanks = " \t\v\f\r";  // white space within a line

/// Called for a row of a table that is left out: the reason, its place or the error, its bytes.
using OnSkip = std::function<void(SkipReason, const std::string& first, std::int64_t bytes)>;

/// The number of line ends.
std::int64_t count_lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

/// Why a piece is no text, and the line of its first bad byte; nothing for a text.
std::optional<std::pair<SkipReason, std::int64_t>> find_fault(const TextPiece& piece) {
  const std::size_t valid = valid_utf8_prefix(piece.text);
  const std::size_t bad = std::min(piece.text.substr(0, valid).find('\0'), valid);
  if (bad == piece.text.size()) return std::nullopt;
  return std::pair(bad < valid ? SkipReason::nul_byte : SkipReason::invalid_utf8,
                   piece.line + count_lines(piece.text.substr(0, bad)));
}

/// The position to cut `text`, which has more than `limit` bytes: before white space if possible,
/// else between characters. Tokenizers of bytes keep a space with the word behind it.
std::size_t cut_position(std::string_view text, std::size_t limit) {
  const std::size_t space = text.find_last_of(white_space, limit - 1);
  if (space != text.npos && space > 0) return space;
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
    require_input(!lone_cr_ || line_ends_, "{}{}", printable_path(path_), ends_in_cr_alone);
    const std::string_view rest = waiting();
    // No document begins after the last line end. An empty file, however, is an empty document.
    const bool nothing = documents_ == Documents::blank_lines
                             ? !inside_ && taken_ && rest.find_first_not_of(blanks) == rest.npos
                             : rest.empty() && line_ > 1;
    if (nothing) return std::nullopt;
    const std::size_t size = size_without_last_line_end(rest);
    return take(rest, size, rest.size() - size, false);
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
        word != view.npos && view.substr(word, at + 1 - word).find('\n') != view.npos;
    return ends_line ? word + 1 : at;
  }

  /// A last document between blank lines is as long as if another one followed.
  std::size_t size_without_last_line_end(std::string_view rest) const {
    if (documents_ != Documents::blank_lines) return rest.size();
    const std::size_t last = rest.find_last_not_of(blanks);
    return last != rest.npos && rest[last] == '\n' ? last : rest.size();
  }

  /// Drops the blank lines before a document.
  void drop_blank_lines() {
    while (true) {
      const std::string_view view = waiting();
      const std::size_t end = view.find_first_not_of(blanks);
      if (end == view.npos || view[end] != '\n') return;
      start_ += end + 1;
      searched_ = 0;
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
    // A file that is no text ends in another message.
    if (first) line_ends_ = !encoding_hint(block).empty();
    require_input(!first || !is_fastq(block), "{}{}", printable_path(path_), fastq_is_no_text);
    const std::size_t before = buffer_.size();
    const bool lone_cr = pending_cr_ && block.substr(0, 1) != "\n";
    if (lone_cr) buffer_ += '\r';
    lone_cr_ |= lone_cr && !ended;
    pending_cr_ = !block.empty() && block.back() == '\r';
    if (pending_cr_) block.remove_suffix(1);
    while (!block.empty()) {
      const std::size_t crlf = std::min(block.find("\r\n"), block.size());
      const std::string_view part = block.substr(0, crlf);
      buffer_ += part;
      line_ends_ |= crlf < block.size() || part.find('\n') != part.npos;
      lone_cr_ |= !line_ends_ && part.find('\r') != part.npos;
      block.remove_prefix(std::min(crlf + 1, block.size()));
    }
    drop_marks_behind(before);
    return !ended || lone_cr;
  }

  /// Removes the marks of the block that was appended at `before`, and one that begins before it.
  void drop_marks_behind(std::size_t before) {
    const std::size_t size = buffer_.size(), begin = before - std::min(before, std::size_t{3});
    if (begin == 0 && !inside_)  // where a document begins
      drop_marks(buffer_);
    else if (const std::size_t end = buffer_.find('\n', begin); end != buffer_.npos)
      drop_marks(buffer_, end + 1);
    if (buffer_.size() < size) searched_ = 0;
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
  bool lone_cr_ = false, line_ends_ = false;  // whether the file has a CR without LF, and LF
  bool inside_ = false;                       // whether the last piece continues
  bool taken_ = false;                        // whether a piece was returned
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
          text_ = std::move(*row->cells[0]);
          taken_ = 0;
          return any_text_ = true;
        }
        skip_(SkipReason::no_text, row->place(printable_path(path_)), 0);
      } catch (const BadRow& error) {
        any_text_ = true;
        skip_(SkipReason::bad_row, error.what(), rows_->row_bytes());
      }
    }
    if (any_row_ && !any_text_) refuse_column();
    return false;
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

const char* describe(SkipReason reason) {
  constexpr const char* words[] = {
      "not UTF-8",           "with NUL bytes",           "empty",
      "rows without a text", "rows that cannot be read", "files that unpack beyond measure",
      "files that vanished"};
  static_assert(std::size(words) == skip_reasons);
  return words[static_cast<std::size_t>(reason)];
}

double TextStatistics::unreadable_share() const {
  std::int64_t left_out = 0;
  for (std::size_t i = 0; i < skip_reasons; ++i)
    if (static_cast<SkipReason>(i) != SkipReason::empty) left_out += skipped[i].bytes;
  return left_out == 0 ? 0 : static_cast<double>(left_out) / static_cast<double>(left_out + bytes);
}

std::string TextStatistics::summary() const {
  std::string text = fmt::format("{} files, {} bytes, {} documents", files, bytes, documents);
  const char* separator = "; left out: ";
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    if (skipped[i].count == 0) continue;
    text += fmt::format("{}{} {} (first: {})", separator, skipped[i].count,
                        describe(static_cast<SkipReason>(i)), skipped[i].first);
    separator = ", ";
  }
  return text;
}

void require_texts(const std::vector<fs::path>& files, const TextForm& form) {
  for (const fs::path& file : files) {
    refuse_columns_of_arrow(file);
    if (table_format_of(file)) TextReader({file}, form).next();
  }
}

std::vector<fs::path> match_texts(std::span<const std::string> patterns, const TextForm& form) {
  std::vector<fs::path> files = match_files(patterns);
  require_texts(files, form);
  return files;
}

TextReader::TextReader(std::vector<fs::path> files, TextForm form, std::size_t piece_bytes)
    : files_(std::move(files)),
      form_(std::move(form)),
      piece_bytes_(std::max(piece_bytes, std::size_t{4})) {}

TextReader::~TextReader() = default;

std::int64_t TextReader::position() const {
  return passed_bytes_ + (pieces_ ? pieces_->position() : 0);
}

Skipped& TextReader::skip(SkipReason reason, const std::string& first) {
  Skipped& entry = statistics_.skipped[static_cast<std::size_t>(reason)];
  if (entry.count++ == 0) entry.first = first;
  return entry;
}

/// Skips the document that begins with `piece`, and whose fault is in this line.
Skipped& TextReader::skip(SkipReason reason, const TextPiece& piece, std::int64_t line) {
  const bool begins_file = piece.line == 1;
  return skip(reason, fmt::format("{}:{}{}", printable_path(*piece.file), line,
                                  begins_file ? encoding_hint(piece.text) : ""));
}

std::unique_ptr<FilePieces> TextReader::open(const fs::path& file) {
  const auto format = table_format_of(file);
  if (!format) return std::make_unique<PlainPieces>(file, form_.documents, piece_bytes_);
  return std::make_unique<TablePieces>(
      file, *format, form_.column, piece_bytes_,
      [this](SkipReason reason, const std::string& first, std::int64_t bytes) {
        skip(reason, first).bytes += bytes;
      });
}

/// Counts the file of `piece`, which begins it, if it looks like another form under a wrong name.
void TextReader::note_form(const TextPiece& piece) {
  if (table_format_of(*piece.file)) return;
  const std::string form = other_form(piece.text);
  if (!form.empty() && statistics_.other_forms++ == 0)
    statistics_.first_other_form = printable_path(*piece.file) + " " + form;
}

/// The first pass over a file: lists the documents longer than a piece that hold invalid bytes.
void TextReader::find_long_rejects(const fs::path& file) {
  long_rejects_.clear();
  if (table_format_of(file)) return;  // its rows are checked one by one
  const auto pieces = open(file);
  std::int64_t start = 0;  // line of the current document; 0 between documents
  bool rejected = false;
  while (const auto piece = pieces->next()) {
    if (start == 0) rejected = false;
    if (start == 0 && piece->continues) start = piece->line;
    if (start > 0 && !rejected) {
      const auto fault = find_fault(*piece);
      rejected = fault.has_value();
      if (fault) long_rejects_[start] = *fault;
    }
    if (!piece->continues) start = 0;
  }
}

bool TextReader::open_next_file() {
  while (next_file_ < files_.size()) {
    const fs::path& file = files_[next_file_++];
    try {
      find_long_rejects(file);
      pieces_ = open(file);
      begins_file_ = true;
      return true;
    } catch (const DecompressionBomb& bomb) {
      skip(SkipReason::decompression_bomb, bomb.what()).bytes +=
          static_cast<std::int64_t>(fs::file_size(file));
    } catch (const InputError&) {
      std::error_code ignored;
      if (fs::exists(file, ignored)) throw;
      skip(SkipReason::vanished, printable_path(file));
    }
  }
  return false;
}

/// Whether to return the piece. Counts its document if it is the first piece of one.
bool TextReader::accepts(const TextPiece& piece) {
  const bool first = !inside_document_;
  const bool is_long = piece.continues || inside_document_;
  inside_document_ = piece.continues;
  const auto bytes = static_cast<std::int64_t>(piece.text.size());
  if (is_long) {
    if (first) {
      const auto reject = long_rejects_.find(piece.line);
      const bool rejected = reject != long_rejects_.end();
      rejecting_ = rejected ? &skip(reject->second.first, piece, reject->second.second) : nullptr;
      statistics_.documents += !rejected;
    }
    require_input(rejecting_ || !find_fault(piece), "{}: the file changed while it was read",
                  printable_path(*piece.file));
    if (rejecting_) rejecting_->bytes += bytes;
    return rejecting_ == nullptr;
  }
  if (const auto fault = find_fault(piece)) {
    skip(fault->first, piece, fault->second).bytes += bytes;
    return false;
  }
  if (piece.text.find_first_not_of(white_space) == piece.text.npos) {
    skip(SkipReason::empty, piece, piece.line).bytes += bytes;
    return false;
  }
  ++statistics_.documents;
  return true;
}

std::optional<TextPiece> TextReader::next() {
  for (;;) {
    if (pieces_ == nullptr && !open_next_file()) return std::nullopt;
    auto piece = pieces_->next();
    if (!piece) {
      passed_bytes_ += pieces_->position();
      pieces_.reset();
      ++statistics_.files;
      continue;
    }
    if (std::exchange(begins_file_, false)) note_form(*piece);
    if (!accepts(*piece)) continue;
    statistics_.bytes += static_cast<std::int64_t>(piece->text.size());
    piece->document = statistics_.documents - 1;
    piece->number = returned_++;
    return piece;
  }
}

}  // namespace nystrom
