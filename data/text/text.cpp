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

namespace fs = std::filesystem;

constexpr std::size_t block_bytes = std::size_t{1} << 18;
constexpr std::string_view white_space = " \t\n\v\f\r";
constexpr std::string_view blanks = " \t\v\f\r";  // white space within a line

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

// ---- Patterns -----------------------------------------------------------------------------------

/// The names that a pattern of glob(3) matches.
std::vector<std::string> glob_names(const std::string& pattern) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  globfree(&found);
  if (code == GLOB_NOSPACE) throw Error("out of memory while listing files");
  return names;
}

/// A pattern that matches `name` alone.
std::string literal(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// A folder and all folders below it. Each ends with '/'; the current folder is "".
std::vector<std::string> folders_below(const std::string& folder) {
  std::vector<std::string> folders = {folder};
  fs::recursive_directory_iterator entry(folder.empty() ? "." : folder);
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    if (!entry->is_directory() || entry->is_symlink()) continue;
    const std::string name = entry->path().string();
    if (entry->path().filename().string().starts_with('.'))
      entry.disable_recursion_pending();
    else
      folders.push_back((folder.empty() ? name.substr(2) : name) + '/');
  }
  return folders;
}

/// The position of the first component "**" of a pattern.
std::size_t find_any_depth(const std::string& pattern) {
  for (std::size_t at = pattern.find("**"); at != pattern.npos; at = pattern.find("**", at + 1)) {
    const bool begins = at == 0 || pattern[at - 1] == '/';
    if (begins && (at + 2 == pattern.size() || pattern[at + 2] == '/')) return at;
  }
  return pattern.npos;
}

/// The names that a pattern matches, folders among them only if the pattern has no "**".
std::vector<std::string> matched_names(const std::string& pattern) {
  const std::size_t at = find_any_depth(pattern);
  if (at == pattern.npos) return glob_names(pattern);
  const std::string rest = at + 3 < pattern.size() ? pattern.substr(at + 3) : "*";
  std::vector<std::string> names;
  const std::vector<std::string> bases =
      at == 0 ? std::vector<std::string>{""} : glob_names(pattern.substr(0, at));
  for (const std::string& base : bases) {
    for (const std::string& folder : folders_below(base)) {
      for (const std::string& name : matched_names(literal(folder) + rest))
        if (!fs::is_directory(name)) names.push_back(name);
    }
  }
  return names;
}

/// The same. Throws an InputError if the pattern matches nothing.
std::vector<std::string> match(const std::string& pattern) {
  require_input(!pattern.empty() && pattern.find('\0') == pattern.npos,
                "a file pattern is empty or holds a NUL byte");
  std::vector<std::string> names = matched_names(pattern);
  require_input(!names.empty(),
                "'{}' matches no file; relative names start at the current folder {}",
                printable(pattern), printable_path(fs::current_path()));
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

std::vector<fs::path> match_files(std::span<const std::string> patterns) {
  std::set<std::string> names;
  for (const std::string& pattern : patterns) {
    for (const std::string& name : match(pattern)) {
      require_input(!fs::is_directory(name),
                    "'{0}' is a folder; name the files in it, as in '{0}/*.txt', or all below it: "
                    "'{0}/**'",
                    printable(name));
      names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<fs::path> files_below(const fs::path& folder) {
  const std::string pattern = literal(folder.string()) + "/**";
  return match_files(std::span(&pattern, 1));
}

// ---- One file -----------------------------------------------------------------------------------

/// Cuts a file into documents, and these into pieces. The bytes need not be valid.
class TextReader::FilePieces {
 public:
  FilePieces(const fs::path& path, Documents documents, std::size_t piece_bytes)
      : path_(path),
        documents_(documents),
        piece_bytes_(piece_bytes),
        source_(open_byte_source(path)) {}

  std::optional<TextPiece> next() {
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

  std::int64_t position() const { return source_->position(); }

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

// ---- All files ----------------------------------------------------------------------------------

TextReader::TextReader(std::vector<fs::path> files, Documents documents, std::size_t piece_bytes)
    : files_(std::move(files)),
      documents_(documents),
      piece_bytes_(std::max(piece_bytes, std::size_t{4})) {}

TextReader::~TextReader() = default;

std::int64_t TextReader::position() const {
  return passed_bytes_ + (pieces_ ? pieces_->position() : 0);
}

Skipped& TextReader::skip(SkipReason reason, const fs::path& file, std::int64_t line) {
  Skipped& entry = statistics_.skipped[static_cast<std::size_t>(reason)];
  if (entry.count++ == 0)
    entry.first =
        line > 0 ? fmt::format("{}:{}", printable_path(file), line) : printable_path(file);
  return entry;
}

/// The first pass over a file: lists the documents longer than a piece that hold invalid bytes.
void TextReader::find_long_rejects(const fs::path& file) {
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
    const fs::path& file = files_[next_file_++];
    try {
      find_long_rejects(file);
      pieces_ = std::make_unique<FilePieces>(file, documents_, piece_bytes_);
      return true;
    } catch (const DecompressionBomb&) {
      skip(SkipReason::decompression_bomb, file, 0).bytes +=
          static_cast<std::int64_t>(fs::file_size(file));
    } catch (const InputError&) {
      std::error_code ignored;
      if (fs::exists(file, ignored)) throw;
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
  const auto bytes = static_cast<std::int64_t>(piece.text.size());
  if (is_long) {
    if (first) {
      rejecting_ = nullptr;
      if (long_rejects_passed_ < long_rejects_.size() &&
          long_rejects_[long_rejects_passed_].line == piece.line) {
        const LongReject& reject = long_rejects_[long_rejects_passed_++];
        rejecting_ = &skip(reject.reason, *piece.file, reject.bad_line);
      } else {
        ++statistics_.documents;
      }
    }
    require_input(rejecting_ || !find_bad_byte(piece.text),
                  "{}: the file changed while it was read", printable_path(*piece.file));
    if (rejecting_) rejecting_->bytes += bytes;
    return rejecting_ == nullptr;
  }
  if (const auto bad = find_bad_byte(piece.text)) {
    const std::int64_t line = piece.line + count_lines(piece.text.substr(0, bad->position));
    skip(bad->reason, *piece.file, line).bytes += bytes;
    return false;
  }
  if (piece.text.find_first_not_of(white_space) == piece.text.npos) {
    skip(SkipReason::empty, *piece.file, piece.line).bytes += bytes;
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
