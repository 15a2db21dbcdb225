// Numbered lines of a text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "data/text/byte_source.h"

namespace nystrom {

/// An unreadable row, after which a reader can continue with the next row.
class BadRow : public InputError {
 public:
  using InputError::InputError;
};

/// The largest length of a line. Files with longer lines are not tables.
inline constexpr std::size_t max_row_bytes = std::size_t{64} << 20;

inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// The end of the message for a file of which no reader would find the lines.
inline constexpr std::string_view ends_in_cr_alone =
    ": its lines end in CR alone; convert it, as with tr '\\r' '\\n' < old > new";

/// Reads a file, which may be compressed (.gz, .zst), in the memory of one line. UTF-8 byte
/// order marks at the beginning of lines are dropped (drop_marks). CRs before the LF belong to the
/// line end. No further line begins after the last line end.
class LineReader {
 public:
  /// Opens `file`. Throws an InputError when it is absent, unreadable or not regular.
  explicit LineReader(const std::filesystem::path& file);

  /// Stores the next line, without its end, in `line`. Returns false after the last. Throws an
  /// InputError for a line beyond max_row_bytes, and for a file whose lines end in CR alone.
  bool next(std::string& line);
  /// The number of the last line that next() returned, from 1.
  std::int64_t line() const { return line_; }
  /// The number of bytes of the file on disk that have been read.
  std::int64_t position() const { return source_->position(); }
  /// The name of the file, for messages.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> block_;
  std::string_view waiting_;  // in block_
  bool at_end_ = false;
  std::int64_t line_ = 0;
};

/// "; the file is UTF-16: convert it, …", or that it is compressed, for the end of a message about
/// a file that begins with `text`. Else empty.
std::string encoding_hint(std::string_view text);
/// The same, or how to convert text that is in no encoding of Unicode.
std::string encoding_remedy(std::string_view text);

/// Whether a file begins with the four lines of a FASTQ record.
bool is_fastq(std::string_view text);
/// The end of the message for such a file.
inline constexpr std::string_view fastq_is_no_text =
    ": is FASTQ, and its names and qualities are no text; write each sequence as a line of its own";

/// Removes byte order marks at the beginning of lines from `begin` on, where a line begins: joined
/// files have them within.
void drop_marks(std::string& text, std::size_t begin = 0);

/// Throws a BadRow unless `text` is UTF-8 without NUL. `place` is "file:line".
void check_text(std::string_view text, const std::string& place);

/// `text` with LF in the place of CRLF.
std::string without_crlf(std::string text);

/// All bytes of a file, which may be compressed. Throws an InputError for more than `max_bytes`.
std::string read_whole(const std::filesystem::path& file, std::size_t max_bytes);

}  // namespace nystrom
