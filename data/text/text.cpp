#include "data/text/text.h"

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/text/byte_source.h"
#include "data/text/match_files.h"
#include "data/text/table_reader.h"
#include "data/text/text_pieces.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

const char* describe(SkipReason reason) {
  switch (reason) {
    case SkipReason::invalid_utf8: return "not UTF-8";
    case SkipReason::nul_byte: return "with NUL bytes";
    case SkipReason::empty: return "empty";
    case SkipReason::no_text: return "rows without a text";
    case SkipReason::bad_row: return "rows that cannot be read";
    case SkipReason::decompression_bomb: return "files that unpack beyond measure";
    case SkipReason::vanished: return "files that vanished";
  }
  return "";
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

std::vector<fs::path> match_texts(std::span<const std::string> patterns, const TextForm& form) {
  std::vector<fs::path> files = match_files(patterns);
  for (const fs::path& file : files) {
    refuse_columns_of_arrow(file);
    if (table_format_of(file)) TextReader({file}, form).next();
  }
  return files;
}

// ---- All files ----------------------------------------------------------------------------------

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

Skipped& TextReader::skip(SkipReason reason, const fs::path& file, std::int64_t line) {
  const std::string name = printable_path(file);
  return skip(reason, line > 0 ? fmt::format("{}:{}", name, line) : name);
}

std::unique_ptr<FilePieces> TextReader::open(const fs::path& file) {
  return open_pieces(file, form_, piece_bytes_,
                     [this](SkipReason reason, const std::string& first, std::int64_t bytes) {
                       skip(reason, first).bytes += bytes;
                     });
}

/// Counts the file of `piece`, which begins it, if it looks like JSON Lines under another name.
void TextReader::note_json(const TextPiece& piece) {
  if (table_format_of(*piece.file) || !begins_with_json(piece.text)) return;
  if (statistics_.json_like++ == 0) statistics_.first_json_like = printable_path(*piece.file);
}

/// The first pass over a file: lists the documents longer than a piece that hold invalid bytes.
void TextReader::find_long_rejects(const fs::path& file) {
  long_rejects_.clear();
  long_rejects_passed_ = 0;
  if (table_format_of(file)) return;  // its rows are checked one by one
  const auto pieces = open(file);
  std::int64_t start = 0;  // line of the current document; 0 between documents
  bool rejected = false;
  while (const auto piece = pieces->next()) {
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
      pieces_ = open(file);
      begins_file_ = true;
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
    auto piece = pieces_->next();
    if (!piece) {
      passed_bytes_ += pieces_->position();
      pieces_.reset();
      ++statistics_.files;
      continue;
    }
    if (std::exchange(begins_file_, false)) note_json(*piece);
    if (!accepts(*piece)) continue;
    statistics_.bytes += static_cast<std::int64_t>(piece->text.size());
    piece->document = statistics_.documents - 1;
    piece->number = returned_++;
    return piece;
  }
}

}  // namespace nystrom
