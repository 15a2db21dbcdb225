#include "train/state/zip_directory.h"

#include <algorithm>
#include <string_view>

#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr std::int64_t max_directory_bytes = std::int64_t{64} << 20;

/// Bytes of the file, and the little-endian fields in them.
class Fields {
 public:
  Fields(const InputFile& file, std::int64_t begin, std::int64_t bytes) {
    require_input(begin >= 0 && bytes >= 0 && bytes <= file.size() && begin <= file.size() - bytes,
                  "is a damaged zip archive: {} bytes at {} lie outside of it", bytes, begin);
    text_.resize(static_cast<std::size_t>(bytes));
    file.read(std::as_writable_bytes(std::span(text_)), begin);
  }

  std::string_view text(std::size_t at, std::size_t count) const {
    require_input(at <= text_.size() && count <= text_.size() - at,
                  "is a damaged zip archive: an entry of its directory is cut off");
    return std::string_view(text_).substr(at, count);
  }
  std::uint64_t number(std::size_t at, std::size_t width) const {
    std::uint64_t value = 0;
    const std::string_view digits = text(at, width);
    for (std::size_t i = width; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(digits[i]);
    return value;
  }
  /// A number of 64 bits; what exceeds a file of any size lies outside of this one.
  std::int64_t place(std::size_t at, std::size_t width) const {
    return static_cast<std::int64_t>(std::min(number(at, width), std::uint64_t{1} << 62));
  }
  std::size_t size() const { return text_.size(); }
  const std::string& all() const { return text_; }

 private:
  std::string text_;
};

struct Directory {
  std::int64_t begin = 0, bytes = 0;
};

/// Finds the directory by the record at the end of the file, or by its form of 64 bits.
Directory find_directory(const InputFile& file) {
  constexpr std::int64_t record = 22, longest_comment = 65535, locator = 20;
  const std::int64_t tail = std::min(file.size(), record + longest_comment);
  const Fields last(file, file.size() - tail, tail);
  const std::size_t at = last.all().rfind("PK\5\6");
  require_input(at != std::string::npos && last.size() - at >= record,
                "is cut off or no zip archive: it has no directory at its end");
  const std::int64_t place = file.size() - tail + static_cast<std::int64_t>(at);
  if (place >= locator) {
    const Fields pointer(file, place - locator, locator);
    if (pointer.text(0, 4) == "PK\6\7") {
      const Fields wide(file, pointer.place(8, 8), 56);
      require_input(wide.text(0, 4) == "PK\6\6",
                    "is a damaged zip archive: its directory of 64 "
                    "bits is not where it should be");
      return {wide.place(48, 8), wide.place(40, 8)};
    }
  }
  require_input(last.number(at + 4, 2) == 0, "is one of several parts of a zip archive");
  return {last.place(at + 16, 4), last.place(at + 12, 4)};
}

/// Replaces fields that do not fit into 32 bits by those of the extra field 1.
void read_wide_fields(const Fields& fields, std::size_t at, std::size_t end, std::int64_t& packed,
                      std::int64_t& bytes, std::int64_t& header) {
  constexpr std::int64_t elsewhere = 0xffffffff;
  while (at + 4 <= end) {
    const auto kind = fields.number(at, 2);
    std::size_t value = at + 4;
    at = value + static_cast<std::size_t>(fields.number(at + 2, 2));
    if (kind != 1) continue;
    for (std::int64_t* field : {&bytes, &packed, &header}) {
      if (*field != elsewhere) continue;
      *field = fields.place(value, 8);
      value += 8;
    }
  }
}

}  // namespace

std::map<std::string, ZipEntry> read_zip_directory(const InputFile& file) {
  const Directory directory = find_directory(file);
  require_input(directory.bytes <= max_directory_bytes,
                "has a zip directory of {} bytes, expected at most {}", directory.bytes,
                max_directory_bytes);
  const Fields fields(file, directory.begin, directory.bytes);
  std::map<std::string, ZipEntry> entries;
  for (std::size_t at = 0; at < fields.size();) {
    constexpr std::size_t fixed = 46;
    require_input(fields.text(at, 4) == "PK\1\2",
                  "is a damaged zip archive: its directory has no "
                  "entry where one should be");
    const auto name_bytes = static_cast<std::size_t>(fields.number(at + 28, 2));
    const auto extra_bytes = static_cast<std::size_t>(fields.number(at + 30, 2));
    const auto comment_bytes = static_cast<std::size_t>(fields.number(at + 32, 2));
    const std::string name(fields.text(at + fixed, name_bytes));
    require_input((fields.number(at + 8, 2) & 1) == 0, "its entry {} is encrypted",
                  printable(name));
    require_input(fields.number(at + 10, 2) == 0,
                  "its entry {} is compressed; torch.save stores entries as they are: unpack the "
                  "archive, or save it again",
                  printable(name));
    std::int64_t packed = fields.place(at + 20, 4), bytes = fields.place(at + 24, 4),
                 header = fields.place(at + 42, 4);
    const std::size_t extra = at + fixed + name_bytes;
    read_wide_fields(fields, extra, extra + extra_bytes, packed, bytes, header);
    require_input(packed == bytes, "its entry {} has two sizes", printable(name));

    const Fields local(file, header, 30);
    require_input(local.text(0, 4) == "PK\3\4",
                  "is a damaged zip archive: its entry {} is not "
                  "where it should be",
                  printable(name));
    ZipEntry entry;
    entry.begin =
        header + 30 + static_cast<std::int64_t>(local.number(26, 2) + local.number(28, 2));
    entry.bytes = bytes;
    require_input(entry.begin <= file.size() && bytes <= file.size() - entry.begin,
                  "is cut off: its entry {} ends at byte {} of {}", printable(name),
                  entry.begin + bytes, file.size());
    if (const auto crc = static_cast<std::uint32_t>(fields.number(at + 16, 4)); crc != 0)
      entry.crc = crc;
    require_input(entries.emplace(name, entry).second, "has entry {} twice", printable(name));
    at = extra + extra_bytes + comment_bytes;
  }
  return entries;
}

}  // namespace nystrom
