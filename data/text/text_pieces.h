// The documents of one file in pieces, private to data/text.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/text/text.h"

namespace nystrom {

constexpr std::string_view white_space = " \t\n\v\f\r";

/// The number of line ends.
inline std::int64_t count_lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

/// Cuts a file into documents, and these into pieces.
class FilePieces {
 public:
  virtual ~FilePieces() = default;
  /// The next piece; nothing after the last. The bytes of a plain file need not be valid UTF-8.
  virtual std::optional<TextPiece> next() = 0;
  /// The number of bytes of the file on disk that have been read.
  virtual std::int64_t position() const = 0;
};

/// Called for a row of a table that is left out: the reason, its place or the error, its bytes.
using OnSkip = std::function<void(SkipReason, const std::string& first, std::int64_t bytes)>;

/// Opens a file. Throws an InputError that names it when it is unreadable, or a table without the
/// column.
std::unique_ptr<FilePieces> open_pieces(const std::filesystem::path& file, const TextForm& form,
                                        std::size_t piece_bytes, OnSkip skip);

}  // namespace nystrom
