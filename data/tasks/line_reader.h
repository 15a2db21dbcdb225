// Lines of a text file, one by one, with their numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_source.h"

namespace nystrom {

/// Reads a file, maybe compressed (.gz, .zst), in memory of one line. A UTF-8 byte order mark at
/// its beginning is dropped; a CR before the LF belongs to the line end. The end of the last line
/// begins no further line.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& file);

  /// Puts the next line, without its end, into `line`; false after the last. InputError for a line
  /// beyond max_row_bytes, and for a file whose lines end in CR alone.
  bool next(std::string& line);
  /// The number of the line that next() gave last, from 1.
  std::int64_t line() const { return line_; }
  /// The file, for messages.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> block_;
  std::string_view waiting_;  // in block_
  bool at_end_ = false;
  std::int64_t line_ = 0;
};

/// "; the file is UTF-16: convert it, …" for the end of a message about a file that begins with
/// these bytes, or nothing.
std::string utf16_hint(std::string_view text);

/// Throws BadRow unless `text` is UTF-8 without NUL. `place` is "file:line".
void check_text(std::string_view text, const std::string& place);

/// All bytes of a file, maybe compressed, at most `max_bytes` of them (InputError).
std::string read_whole(const std::filesystem::path& file, std::size_t max_bytes);

}  // namespace nystrom
