#include "data/text/line_reader.h"

#include <algorithm>
#include <array>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"

namespace nystrom {

LineReader::LineReader(const std::filesystem::path& file)
    : name_(printable_path(file)), source_(open_byte_source(file)), block_(read_block_bytes) {}

bool LineReader::next(std::string& line) {
  line.clear();
  bool any = false, ended = false;
  while (true) {
    if (waiting_.empty() && !at_end_) {
      const std::size_t count = source_->read(block_);
      waiting_ = {block_.data(), count};
      at_end_ = count < block_.size();
      require_input(line_ > 0 || !line.empty() || !is_fastq(waiting_), "{}{}", name_,
                    fastq_is_no_text);
    }
    if (waiting_.empty()) break;
    any = true;
    const std::size_t end = waiting_.find('\n');
    ended |= end != waiting_.npos;
    line += waiting_.substr(0, end);
    waiting_.remove_prefix(end == waiting_.npos ? waiting_.size() : end + 1);
    require_input(line.size() <= max_row_bytes,
                  "{}:{}: the line is longer than {} bytes; this is no table of texts", name_,
                  line_ + 1, max_row_bytes);
    if (end != std::string_view::npos) break;
  }
  if (!any) return false;
  ++line_;
  drop_marks(line);
  line.erase(line.find_last_not_of('\r') + 1);
  require_input(line_ > 1 || ended || line.find('\r') == line.npos || !encoding_hint(line).empty(),
                "{}{}", name_, ends_in_cr_alone);
  return true;
}

std::string encoding_hint(std::string_view text) {
  const std::pair<std::string_view, const char*> packed[] = {{"\x1F\x8B", "gzip"},
                                                             {"BZh", "bzip2"},
                                                             {"\xFD"
                                                              "7zXZ",
                                                              "xz"},
                                                             {"\x28\xB5\x2F\xFD", "zstd"},
                                                             {"PK\x03\x04", "zip"}};
  for (const auto& [magic, name] : packed)
    if (text.starts_with(magic))
      return fmt::format("; the file is {} data: unpack it{}", name,
                         text.starts_with("PK") ? ", or save Excel's as .csv" : "");
  if (text.starts_with(std::string_view("\xFF\xFE\0\0", 4)) ||
      text.starts_with(std::string_view("\0\0\xFE\xFF", 4)))
    return "; the file is UTF-32: convert it, as with iconv -f UTF-32 -t UTF-8";
  const auto nul = [&](std::size_t at) { return text[at] == '\0'; };
  const bool marked = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  const bool every_other_nul =
      text.size() >= 4 && nul(0) != nul(1) && nul(0) == nul(2) && nul(1) == nul(3);  // as in ASCII
  return marked || every_other_nul
             ? "; the file is UTF-16: convert it, as with iconv -f UTF-16 -t UTF-8"
             : "";
}

std::string encoding_remedy(std::string_view text) {
  const std::string hint = encoding_hint(text);
  return hint.empty() && !is_valid_utf8(text) && text.find('\0') == text.npos
             ? "; if the file is Latin-1, convert it, as with iconv -f WINDOWS-1252 -t UTF-8"
             : hint;
}

bool is_fastq(std::string_view text) {
  std::array<std::string_view, 4> lines;
  for (std::string_view& line : lines) {
    line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  const auto& [head, bases, plus, qualities] = lines;
  constexpr std::string_view letters = "ACGTUNRYSWKMBDHVacgtunryswkmbdhv.-*";
  return head.starts_with('@') && plus.starts_with('+') &&
         (plus.size() == 1 || plus.substr(1) == head.substr(1)) && !bases.empty() &&
         bases.size() == qualities.size() && bases.find_first_not_of(letters) == bases.npos;
}

void drop_marks(std::string& text, std::size_t begin) {
  while (text.compare(begin, byte_order_mark.size(), byte_order_mark) == 0)
    text.erase(begin, byte_order_mark.size());
  const std::string in_line = '\n' + std::string(byte_order_mark);
  for (std::size_t at = begin; (at = text.find(in_line, at)) != text.npos;)
    text.erase(at + 1, byte_order_mark.size());
}

void check_text(std::string_view text, const std::string& place) {
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid < text.size()) {
    throw BadRow(fmt::format("{}: byte {} is not UTF-8 ({}){}", place, valid + 1,
                             printable(text.substr(valid, 1)), encoding_remedy(text)));
  }
  const std::size_t nul = text.find('\0');
  if (nul != text.npos)
    throw BadRow(
        fmt::format("{}: byte {} is NUL; this is no text{}", place, nul + 1, encoding_hint(text)));
}

std::string without_crlf(std::string text) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text[kept++] = text[i];
  text.resize(kept);
  return text;
}

std::string read_whole(const std::filesystem::path& file, std::size_t max_bytes) {
  const auto source = open_byte_source(file);
  std::string text;
  std::vector<char> block(read_block_bytes);
  while (true) {
    const std::size_t count = source->read(block);
    text.append(block.data(), count);
    require_input(text.size() <= max_bytes, "{}: more than {} bytes; at most that many are read",
                  printable_path(file), max_bytes);
    if (count < block.size()) break;
  }
  drop_marks(text);
  if (is_fastq(text)) throw BadRow(fmt::format("{}{}", printable_path(file), fastq_is_no_text));
  return text;
}

}  // namespace nystrom
