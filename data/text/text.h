// Documents out of text files: plain, .gz or .zst, of any size, in bounded memory. What is no text
// is left out, counted and reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// What one document is.
enum class Documents { files, lines };

/// Why a document (or, for the last two, a file) was left out.
enum class SkipReason { invalid_utf8, nul_byte, empty, decompression_bomb, vanished };
inline constexpr std::size_t skip_reasons = 5;
/// "is not UTF-8", … as used in reports.
const char* describe(SkipReason reason);

struct Skipped {
  std::int64_t count = 0;
  std::string first;  ///< "file:line" of the first, the file alone where no line is to blame
};

/// What was read so far.
struct TextStatistics {
  std::int64_t files = 0;      ///< read to their end
  std::int64_t bytes = 0;      ///< of the documents handed out
  std::int64_t documents = 0;  ///< handed out
  std::array<Skipped, skip_reasons> skipped;

  const Skipped& operator[](SkipReason reason) const {
    return skipped[static_cast<std::size_t>(reason)];
  }
  std::int64_t skipped_documents() const;
  /// "3 files, 1024 bytes, 17 documents; left out: 2 that are not UTF-8 (first: a.txt:7)", one
  /// line.
  std::string summary() const;
};

/// A document, or a part of one that is longer than TextReader holds at a time.
struct TextPiece {
  std::string_view text;   ///< valid UTF-8 without NUL, LF between lines; valid until the next call
  bool continues = false;  ///< the next piece goes on with this document
  std::int64_t line = 1;   ///< where it begins in `file`
  const std::filesystem::path* file = nullptr;
};

/// The files that the patterns (shell wildcards * ? [a-z] within names, or plain names) match:
/// sorted by bytes, each once. InputError for a pattern that matches nothing, and for one that
/// matches a folder.
std::vector<std::filesystem::path> match_files(std::span<const std::string> patterns);

/// Reads the documents of files in order. A byte order mark is dropped and CRLF becomes LF. Left
/// out and counted: documents that hold NUL or are not UTF-8, empty ones (nothing but white space),
/// bombs, and files that are gone by the time they are read. Every file is read twice, first to
/// find such documents among those longer than a piece, so that no part of one is ever handed out.
class TextReader {
 public:
  static constexpr std::size_t default_piece_bytes = std::size_t{1} << 20;

  /// Longer documents come in pieces of at most `piece_bytes`, cut behind white space if there is
  /// some.
  TextReader(std::vector<std::filesystem::path> files, Documents documents,
             std::size_t piece_bytes = default_piece_bytes);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// The next piece, nothing after the last. InputError naming the file for what cannot be read, is
  /// truncated or corrupt.
  std::optional<TextPiece> next();
  const TextStatistics& statistics() const { return statistics_; }
  /// Bytes of the files, as they lie on disk, behind the place reached: for progress, against the
  /// sum of their sizes.
  std::int64_t position() const;

 private:
  class FilePieces;
  /// A document longer than a piece that holds a bad byte.
  struct LongReject {
    std::int64_t line;  // where it begins
    SkipReason reason;
    std::int64_t bad_line;
  };

  bool open_next_file();
  void find_long_rejects(const std::filesystem::path& file);
  bool accepts(const TextPiece& piece);
  void skip(SkipReason reason, const std::filesystem::path& file, std::int64_t line);

  std::vector<std::filesystem::path> files_;
  Documents documents_;
  std::size_t piece_bytes_;
  std::size_t next_file_ = 0;
  std::int64_t passed_bytes_ = 0;         // of files read to their end
  std::unique_ptr<FilePieces> pieces_;    // of the file being read
  bool inside_document_ = false;          // the last piece of pieces_ continues
  bool rejecting_ = false;                // … and belongs to a document that is left out
  std::vector<LongReject> long_rejects_;  // of that file, in order
  std::size_t long_rejects_passed_ = 0;
  TextStatistics statistics_;
};

}  // namespace nystrom
