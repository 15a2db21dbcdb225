#include "data/text/text.h"

#include <glob.h>

#include <algorithm>
#include <set>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/text/byte_source.h"

namespace nystrom {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;
constexpr std::string_view white_space = " \t\n\v\f\r";

struct BadByte {
  SkipReason reason;
  std::size_t position;
};

std::optional<BadByte> find_bad_byte(std::string_view text) {
  const std::size_t valid = valid_utf8_prefix(text);
  const std::size_t nul = text.substr(0, valid).find('\0');
  if (nul != text.npos) return BadByte{SkipReason::nul_byte, nul};
  if (valid < text.size()) return BadByte{SkipReason::invalid_utf8, valid};
  return std::nullopt;
}

std::int64_t count_lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

/// The position to cut `text`, which has more than `limit` bytes: after white space if possible,
/// else between characters.
std::size_t cut_position(std::string_view text, std::size_t limit) {
  const std::size_t space = text.find_last_of(white_space, limit - 1);
  if (space != text.npos) return space + 1;
  std::size_t cut = limit;
  while (cut > limit - 3 && is_utf8_continuation(text[cut])) --cut;
  return cut;
}

/// The files that match one pattern.
std::vector<std::string> match(const std::string& pattern) {
  require_input(!pattern.empty() && pattern.find('\0') == pattern.npos,
                "a file pattern is empty or holds a NUL byte");
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  globfree(&found);
  if (code == GLOB_NOSPACE) throw Error("out of memory while listing files");
  require_input(!names.empty(),
                "'{}' matches no file; relative names start at the current folder {}",
                printable(pattern), printable_path(std::filesystem::current_path()));
  return names;
}

}  // namespace

const char* describe(SkipReason reason) {
  switch (reason) {
    case SkipReason::invalid_utf8: return "not UTF-8";
    case SkipReason::nul_byte: return "with NUL bytes";
    case SkipReason::empty: return "empty";
    case SkipReason::decompression_bomb: return "files that unpack beyond measure";
    case SkipReason::vanished: return "files that vanished";
  }
  return "";
}

std::int64_t TextStatistics::skipped_documents() const {
  std::int64_t sum = 0;
  for (const Skipped& each : skipped) sum += each.count;
  return sum;
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

std::vector<std::filesystem::path> match_files(std::span<const std::string> patterns) {
  std::set<std::string> names;
  for (const std::string& pattern : patterns) {
    for (const std::string& name : match(pattern)) {
      require_input(!std::filesystem::is_directory(name),
                    "'{}' is a folder; name the files in it, as in '{}/*.txt'", printable(name),
                    printable(name));
      names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

// ---- One file -----------------------------------------------------------------------------------

/// Cuts a file into documents, and these into pieces. The bytes need not be valid.
class TextReader::FilePieces {
 public:
  FilePieces(const std::filesystem::path& path, Documents documents, std::size_t piece_bytes)
      : path_(path),
        documents_(documents),
        piece_bytes_(piece_bytes),
        source_(open_byte_source(path)) {}

  std::optional<TextPiece> next() {
    if (done_) return std::nullopt;
    while (true) {
      const std::string_view view = waiting();
      const std::size_t end =
          documents_ == Documents::lines ? view.find('\n', searched_) : view.npos;
      if (end <= piece_bytes_) return take(view, end, 1, false);
      if (view.size() > piece_bytes_) return take(view, cut_position(view, piece_bytes_), 0, true);
      searched_ = view.size();
      if (!fill()) break;
    }
    done_ = true;
    const std::string_view rest = waiting();
    // No line begins after the last line end. An empty file, however, is an empty document.
    if (rest.empty() && line_ > 1) return std::nullopt;
    return take(rest, rest.size(), 0, false);
  }

  std::int64_t position() const { return source_->position(); }

 private:
  std::string_view waiting() const { return std::string_view(buffer_).substr(start_); }

  TextPiece take(std::string_view view, std::size_t size, std::size_t separator, bool continues) {
    const TextPiece piece{view.substr(0, size), continues, line_, &path_};
    line_ += count_lines(view.substr(0, size + separator));
    start_ += size + separator;
    searched_ = 0;
    return piece;
  }

  /// Appends a block. Returns false at the end of the file. A CR is held back until the next byte
  /// shows whether it is LF.
  bool fill() {
    buffer_.erase(0, start_);
    start_ = 0;
    const bool first = block_.empty();
    block_.resize(block_bytes);
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

  std::filesystem::path path_;
  Documents documents_;
  std::size_t piece_bytes_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> block_;
  std::string buffer_;
  std::size_t start_ = 0;     // start of the unread bytes in buffer_
  std::size_t searched_ = 0;  // bytes after start_ that hold no line end
  std::int64_t line_ = 1;
  bool pending_cr_ = false;
  bool done_ = false;
};

// ---- All files ----------------------------------------------------------------------------------

TextReader::TextReader(std::vector<std::filesystem::path> files, Documents documents,
                       std::size_t piece_bytes)
    : files_(std::move(files)),
      documents_(documents),
      piece_bytes_(std::max(piece_bytes, std::size_t{4})) {}

TextReader::~TextReader() = default;

std::int64_t TextReader::position() const {
  return passed_bytes_ + (pieces_ ? pieces_->position() : 0);
}

void TextReader::skip(SkipReason reason, const std::filesystem::path& file, std::int64_t line) {
  Skipped& entry = statistics_.skipped[static_cast<std::size_t>(reason)];
  if (entry.count++ == 0)
    entry.first =
        line > 0 ? fmt::format("{}:{}", printable_path(file), line) : printable_path(file);
}

/// The first pass over a file: lists the documents longer than a piece that hold invalid bytes.
void TextReader::find_long_rejects(const std::filesystem::path& file) {
  long_rejects_.clear();
  long_rejects_passed_ = 0;
  FilePieces pieces(file, documents_, piece_bytes_);
  std::int64_t start = 0;  // line of the current document; 0 between documents
  bool rejected = false;
  while (const auto piece = pieces.next()) {
    if (start == 0) rejected = false;
    if (start == 0 && piece->continues) start = piece->line;
    if (start > 0 && !rejected) {
      if (const auto bad = find_bad_byte(piece->text)) {
        long_rejects_.push_back(
            {start, bad->reason, piece->line + count_lines(piece->text.substr(0, bad->position))});
        rejected = true;
      }
    }
    if (!piece->continues) start = 0;
  }
}

bool TextReader::open_next_file() {
  while (next_file_ < files_.size()) {
    const std::filesystem::path& file = files_[next_file_++];
    try {
      find_long_rejects(file);
      pieces_ = std::make_unique<FilePieces>(file, documents_, piece_bytes_);
      return true;
    } catch (const DecompressionBomb&) {
      skip(SkipReason::decompression_bomb, file, 0);
    } catch (const InputError&) {
      std::error_code ignored;
      if (std::filesystem::exists(file, ignored)) throw;
      skip(SkipReason::vanished, file, 0);
    }
  }
  return false;
}

/// Whether to return the piece. Counts its document if it is the first piece of one.
bool TextReader::accepts(const TextPiece& piece) {
  const bool first = !inside_document_;
  const bool is_long = piece.continues || inside_document_;
  inside_document_ = piece.continues;
  if (is_long) {
    if (first) {
      rejecting_ = long_rejects_passed_ < long_rejects_.size() &&
                   long_rejects_[long_rejects_passed_].line == piece.line;
      if (rejecting_) {
        const LongReject& reject = long_rejects_[long_rejects_passed_++];
        skip(reject.reason, *piece.file, reject.bad_line);
      } else {
        ++statistics_.documents;
      }
    }
    require_input(rejecting_ || !find_bad_byte(piece.text),
                  "{}: the file changed while it was read", printable_path(*piece.file));
    return !rejecting_;
  }
  if (const auto bad = find_bad_byte(piece.text)) {
    skip(bad->reason, *piece.file, piece.line + count_lines(piece.text.substr(0, bad->position)));
    return false;
  }
  if (piece.text.find_first_not_of(white_space) == piece.text.npos) {
    skip(SkipReason::empty, *piece.file, piece.line);
    return false;
  }
  ++statistics_.documents;
  return true;
}

std::optional<TextPiece> TextReader::next() {
  for (;;) {
    if (pieces_ == nullptr && !open_next_file()) return std::nullopt;
    const auto piece = pieces_->next();
    if (!piece) {
      passed_bytes_ += pieces_->position();
      pieces_.reset();
      ++statistics_.files;
      continue;
    }
    if (!accepts(*piece)) continue;
    statistics_.bytes += static_cast<std::int64_t>(piece->text.size());
    return piece;
  }
}

}  // namespace nystrom
