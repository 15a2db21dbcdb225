// The charsmap of a SentencePiece model. It starts with four bytes that hold the size of a
// double-array trie in the format of Darts-clone. The trie and strings that end in NUL follow.
#include <cstring>

#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/sentencepiece_scan.h"

namespace nystrom {
namespace {

// A longer replacement would turn a few bytes of text into megabytes. The longest one in Unicode's
// NFKC has 33 bytes (U+FDFA).
constexpr std::size_t max_replacement_bytes = 256;

// Fields of a unit of the trie.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit >> 6) & 8); }

struct CharsmapParts {
  std::size_t units;
  const char* trie;
  std::string_view strings;

  std::uint32_t unit(std::size_t index) const {
    std::uint32_t value;
    std::memcpy(&value, trie + index * sizeof(value), sizeof(value));
    return value;
  }
};

CharsmapParts split(std::string_view charsmap, const std::string& source) {
  require_input(charsmap.size() <= max_charsmap_bytes,
                "{}: the charsmap has {} bytes, expected at most {}", source, charsmap.size(),
                max_charsmap_bytes);
  std::uint32_t size = 0;
  require_input(charsmap.size() > sizeof(size),
                "{}: the charsmap has {} bytes, too few for its own header", source,
                charsmap.size());
  std::memcpy(&size, charsmap.data(), sizeof(size));
  const std::size_t rest = charsmap.size() - sizeof(size);
  require_input(size > 0 && size < rest && size % sizeof(std::uint32_t) == 0,
                "{}: the charsmap's trie has {} bytes, expected a multiple of 4 below {}", source,
                size, rest);
  return {size / sizeof(std::uint32_t), charsmap.data() + sizeof(size),
          charsmap.substr(sizeof(size) + size)};
}

/// A value, the start of a replacement, lies at the base of a key.
void check_value(const CharsmapParts& parts, std::uint32_t value, const std::string& source) {
  require_input(value < parts.strings.size(),
                "{}: the charsmap leads to byte {} of strings of {} bytes", source, value,
                parts.strings.size());
  require_input(!is_utf8_continuation(parts.strings[value]),
                "{}: the charsmap leads into a character at byte {} of its strings", source, value);
}

/// Visits every reachable node, so that find_replacement needs no checks. The format allows shared
/// nodes, and the unit that leads to a node says whether it is a key.
void check_trie(const CharsmapParts& parts, const std::string& source) {
  struct Node {
    std::uint32_t base;  // the children are at base ^ byte
    bool is_key;
  };
  std::vector<Node> open{{offset_of(parts.unit(0)), false}};
  std::vector<bool> seen(parts.units);
  while (!open.empty()) {
    const auto [base, is_key] = open.back();
    open.pop_back();
    require_input((base | 0xFF) < parts.units, "{}: the charsmap's trie leads to unit {} of {}",
                  source, base | 0xFF, parts.units);
    if (is_key) check_value(parts, value_of(parts.unit(base)), source);
    if (seen[base]) continue;
    seen[base] = true;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t child = base ^ byte, unit = parts.unit(child);
      if (label_of(unit) == byte) open.push_back({child ^ offset_of(unit), has_leaf(unit)});
    }
  }
}

void check_strings(std::string_view strings, const std::string& source) {
  require_input(strings.back() == '\0', "{}: the charsmap's strings do not end in NUL", source);
  require_input(is_valid_utf8(strings), "{}: the charsmap's strings are not valid UTF-8 at byte {}",
                source, valid_utf8_prefix(strings));
  for (std::size_t start = 0; start < strings.size();) {
    const std::size_t end = strings.find('\0', start);
    require_input(end - start <= max_replacement_bytes,
                  "{}: the charsmap holds a string of {} bytes, expected at most {}", source,
                  end - start, max_replacement_bytes);
    start = end + 1;
  }
}

}  // namespace

void check_charsmap(std::string_view charsmap, const std::string& source) {
  if (charsmap.empty()) return;
  const CharsmapParts parts = split(charsmap, source);
  check_strings(parts.strings, source);
  check_trie(parts, source);
}

std::optional<std::string_view> find_replacement(std::string_view charsmap, std::string_view text,
                                                 CharsmapKey which) {
  std::optional<std::string_view> found;
  if (charsmap.empty()) return found;
  const CharsmapParts parts = split(charsmap, "charsmap");
  std::uint32_t position = offset_of(parts.unit(0));
  for (const char byte : text) {
    position ^= static_cast<unsigned char>(byte);
    const std::uint32_t unit = parts.unit(position);
    if (label_of(unit) != static_cast<unsigned char>(byte)) break;
    position ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    found = parts.strings.data() + value_of(parts.unit(position));
    if (which == CharsmapKey::shortest) break;
  }
  return found;
}

}  // namespace nystrom
