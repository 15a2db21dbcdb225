// Documents from text files and tables: plain, .gz or .zst, of any size, in bounded memory. Invalid
// text is left out, counted and reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nystrom {

class FilePieces;

/// A document is a whole file, one line of a file, or the lines of a file between blank lines.
enum class Documents { files, lines, blank_lines };

/// How documents are read from files.
struct TextForm {
  TextForm(Documents cut, std::string text_column = "text")
      : documents(cut), column(std::move(text_column)) {}

  Documents documents;  ///< of plain files; in a table each row is one
  std::string column;   ///< the column of a table with the texts
};

/// The reasons to leave out a document, a row of a table or, for the last two reasons, a file.
enum class SkipReason {
  invalid_utf8,
  nul_byte,
  empty,
  no_text,
  bad_row,
  decompression_bomb,
  vanished
};
inline constexpr std::size_t skip_reasons = 7;
/// The reason as in reports: "not UTF-8", …
const char* describe(SkipReason reason);

/// The documents left out for one reason.
struct Skipped {
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< bytes of these documents; of a file that cannot be unpacked, on disk
  /// "file:line" of the first, and what its encoding may be; the file of one that vanished; for a
  /// bad row or a decompression bomb the whole error.
  std::string first;
};

/// Statistics of the text that was read.
struct TextStatistics {
  std::int64_t files = 0;      ///< files that were read to the end
  std::int64_t bytes = 0;      ///< bytes of the returned documents
  std::int64_t documents = 0;  ///< returned documents
  std::array<Skipped, skip_reasons> skipped;
  std::int64_t other_forms = 0;  ///< plain files that hold no plain text (other_form)
  std::string first_other_form;  ///< the first of them, and its form

  /// The documents left out for `reason`.
  const Skipped& operator[](SkipReason reason) const {
    return skipped[static_cast<std::size_t>(reason)];
  }
  /// The bytes left out because they cannot be read as text, over all bytes. Blank documents do not
  /// count.
  double unreadable_share() const;
  /// One line: "3 files, 1024 bytes, 17 documents; left out: 2 that are not UTF-8 (first:
  /// a.txt:7)".
  std::string summary() const;
};

/// A document, or a part of a document that is longer than TextReader's piece size.
struct TextPiece {
  std::string_view text;   ///< UTF-8 without NUL, with LF between lines; valid until the next call
  bool continues = false;  ///< whether the next piece belongs to the same document
  std::int64_t line = 1;   ///< the line in `file` where the piece begins
  const std::filesystem::path* file = nullptr;
  std::int64_t document = 0, number = 0;  ///< counts of documents and pieces before
};

/// Throws an InputError for a table without the column of the texts, before anything else is read.
void require_texts(const std::vector<std::filesystem::path>& files, const TextForm& form);

/// The files that `patterns` match (match_files), for which require_texts holds.
std::vector<std::filesystem::path> match_texts(std::span<const std::string> patterns,
                                               const TextForm& form);

/// Reads the documents of files in order. The rows of a table, as the ending of its name tells
/// (table_format_of in data/text/table_reader.h), are a document each. A byte order mark is
/// dropped, and CRLF becomes LF, but inside JSON. Documents with NUL or invalid UTF-8, blank
/// documents, rows without a text, unreadable rows, decompression bombs of plain text and vanished
/// files are left out and counted. Every plain file is read twice. The first pass finds invalid
/// documents longer than a piece, so that no part of one is returned.
class TextReader {
 public:
  static constexpr std::size_t default_piece_bytes = std::size_t{1} << 20;

  /// Longer documents are returned in pieces of at most `piece_bytes`, cut before white space if
  /// possible.
  TextReader(std::vector<std::filesystem::path> files, TextForm form,
             std::size_t piece_bytes = default_piece_bytes);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// The next piece; nothing after the last. Throws an InputError that names the file when it is
  /// unreadable, truncated or corrupt or its lines end in CR alone, and for a table in which no row
  /// has the column.
  std::optional<TextPiece> next();
  /// The statistics of the text read so far.
  const TextStatistics& statistics() const { return statistics_; }
  /// The number of bytes on disk before the current position. For progress, compare it with the sum
  /// of the files' sizes.
  std::int64_t position() const;

 private:
  bool open_next_file();
  void find_long_rejects(const std::filesystem::path& file);
  std::unique_ptr<FilePieces> open(const std::filesystem::path& file);
  void note_form(const TextPiece& piece);
  bool accepts(const TextPiece& piece);
  Skipped& skip(SkipReason reason, const std::string& first);
  Skipped& skip(SkipReason reason, const TextPiece& piece, std::int64_t line);

  std::vector<std::filesystem::path> files_;
  TextForm form_;
  std::size_t piece_bytes_;
  std::size_t next_file_ = 0;
  std::int64_t returned_ = 0;           // pieces
  std::int64_t passed_bytes_ = 0;       // bytes of the files that were read to the end
  std::unique_ptr<FilePieces> pieces_;  // pieces of the current file
  bool begins_file_ = false;            // whether no piece of it was read
  bool inside_document_ = false;        // whether the last piece of pieces_ continues
  Skipped* rejecting_ = nullptr;        // counts of the rejected document of that piece
  // Of the current file's documents that are longer than a piece and hold an invalid byte: the line
  // where each begins, why it is rejected, and the line of the byte.
  std::map<std::int64_t, std::pair<SkipReason, std::int64_t>> long_rejects_;
  TextStatistics statistics_;
};

}  // namespace nystrom
