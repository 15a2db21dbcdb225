// The charsmap of a SentencePiece model. It starts with four bytes that hold the size of a
// double-array trie in the format of Darts-clone. The trie and strings that end in NUL follow. The
// library walks the trie without checks.
#include <algorithm>
#include <cstring>

#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/sentencepiece_scan.h"

namespace nystrom {
namespace {

// The library stores the keys found on one path in an array of this size.
constexpr int max_keys_on_path = 32;
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

/// Visits every reachable node. The format allows shared nodes. Each node is visited once, and the
/// largest number of keys on a path below it is stored.
class Walk {
 public:
  Walk(const CharsmapParts& parts, const std::string& source)
      : parts_(parts), source_(source), keys_below_(parts.units, unseen) {}

  void run() {
    enter(offset_of(parts_.unit(0)), false);
    while (!path_.empty()) step();
  }

 private:
  static constexpr std::int8_t unseen = -2;
  static constexpr std::int8_t open = -1;

  struct Node {
    std::uint32_t base;  // the children are at base ^ byte
    int next_byte = 0;
    int below = 0;  // largest number of keys on a path below this node
    bool is_key;
  };

  void enter(std::uint32_t base, bool is_key) {
    require_input((base | 0xFF) < parts_.units, "{}: the charsmap's trie leads to unit {} of {}",
                  source_, base | 0xFF, parts_.units);
    if (is_key) check_value(value_of(parts_.unit(base)));
    keys_below_[base] = open;
    path_.push_back({base, 0, 0, is_key});
  }

  void step() {
    Node& node = path_.back();
    if (node.next_byte == 256) return leave();
    const auto byte = static_cast<std::uint32_t>(node.next_byte++);
    const std::size_t child = node.base ^ byte;
    const std::uint32_t unit = parts_.unit(child);
    if (label_of(unit) != byte) return;
    const std::uint32_t base = static_cast<std::uint32_t>(child) ^ offset_of(unit);
    const bool is_key = has_leaf(unit);
    if (base < parts_.units && keys_below_[base] != unseen) {
      require_input(keys_below_[base] != open,
                    "{}: the charsmap's trie goes round in a circle at unit {}", source_, base);
      // The unit that leads to a node says whether the node is a key. Two such units may differ.
      if (is_key) check_value(value_of(parts_.unit(base)));
      add(node, keys_below_[base] + is_key);
    } else {
      enter(base, is_key);
    }
  }

  void leave() {
    const Node node = path_.back();
    path_.pop_back();
    keys_below_[node.base] = static_cast<std::int8_t>(node.below);
    if (!path_.empty()) add(path_.back(), node.below + node.is_key);
  }

  void add(Node& node, int keys) const {
    node.below = std::max(node.below, keys);
    require_input(keys <= max_keys_on_path,
                  "{}: more than {} keys of the charsmap's trie begin with one another", source_,
                  max_keys_on_path);
  }

  void check_value(std::uint32_t value) const {
    require_input(value < parts_.strings.size(),
                  "{}: the charsmap leads to byte {} of strings of {} bytes", source_, value,
                  parts_.strings.size());
    require_input(!is_utf8_continuation(parts_.strings[value]),
                  "{}: the charsmap leads into a character at byte {} of its strings", source_,
                  value);
  }

  const CharsmapParts& parts_;
  const std::string& source_;
  std::vector<std::int8_t> keys_below_;
  std::vector<Node> path_;
};

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
  Walk(parts, source).run();
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
