// The part of YAML that configurations need, as a tree with places: one document of mappings, lists
// and scalars.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace nystrom {

/// The longest text that parse_yaml reads: a configuration is short.
inline constexpr std::size_t max_yaml_bytes = std::size_t{1} << 20;

/// A place in a text, counted from 1.
struct YamlMark {
  int line = 1;
  int column = 1;
};

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, list, mapping };

  Kind kind = Kind::null;
  std::string text;     // of a scalar
  bool quoted = false;  // the scalar stood in quotes or was a block of text, so it is no number,
                        // true, false or null
  YamlMark mark;
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a mapping, as written: a key may be there twice

  /// The first value under `key`, or nullptr.
  const YamlEntry* find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  YamlMark mark;
  YamlNode value;
};

/// A text that cannot be read, and the place in it.
class YamlError : public InputError {
 public:
  YamlError(YamlMark place, std::string message) : InputError(std::move(message)), mark(place) {}
  YamlMark mark;
};

/// Reads a text of one document; an empty one is null. Throws YamlError for what is not YAML and
/// for what configurations do without: more than max_yaml_bytes, nesting deeper than 32, anchors,
/// aliases, tags, a second document, control characters, invalid UTF-8.
YamlNode parse_yaml(std::string_view text);

/// `text` in single quotes for a message: cut after 80 bytes, control characters as \xNN.
std::string quote_for_message(std::string_view text);

}  // namespace nystrom
