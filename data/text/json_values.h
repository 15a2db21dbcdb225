// The values of a JSON file one by one, however large the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/byte_source.h"

namespace nystrom {

/// Reads the items of one array, or values that follow one another as in JSON Lines, in the memory
/// of one value. The text of a value is found by its brackets and quotes, and not parsed.
class JsonValues {
 public:
  /// Opens `file`, which may be compressed (.gz, .zst). Throws an InputError when it is absent,
  /// unreadable or not regular.
  explicit JsonValues(const std::filesystem::path& file);

  /// The text of the next value; nothing after the last. Throws an InputError "file:line: …" for a
  /// value beyond max_row_bytes, for one that does not end, and for anything else between values.
  std::optional<std::string> next();
  /// The line where the last value begins, from 1.
  std::int64_t line() const { return value_line_; }
  /// Whether the file is one array.
  bool is_array() const { return array_; }
  /// The number of bytes of the file on disk that have been read.
  std::int64_t position() const { return source_->position(); }

 private:
  int peek();
  char take();
  void skip_blanks();
  std::string value();
  [[noreturn]] void fail(const std::string& what) const;

  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> block_;
  std::size_t used_ = 0, size_ = 0;  // in block_
  std::int64_t line_ = 1, value_line_ = 1;
  bool begun_ = false, array_ = false, ended_ = false;
};

}  // namespace nystrom
