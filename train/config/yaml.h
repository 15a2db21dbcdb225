// A parser for the part of YAML that configurations need: one document of mappings, lists and
// scalars. The result is a tree whose nodes know their place in the text. And a writer of values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/error.h"

namespace nystrom {

/// The maximum size of a text for parse_yaml, in bytes.
inline constexpr std::size_t max_yaml_bytes = std::size_t{1} << 20;

/// A place in a text. Lines and columns are counted from 1.
struct YamlMark {
  std::size_t source = 0;  ///< the number of the text, for readers of several
  int line = 1;
  int column = 1;

  auto operator<=>(const YamlMark&) const = default;
};

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, list, mapping };

  Kind kind = Kind::null;
  std::string text = {};  // of a scalar
  bool quoted = false;    // a quoted scalar or a block of text: never a number, true, false or null
  YamlMark mark = {};     // of a null in a mapping: that of its key
  std::vector<YamlNode> items = {};  // of a list
  std::vector<YamlEntry> entries;    // of a mapping, as written: keys may be duplicates
  bool dotted = false;               // a mapping that stands for the key a.b of an override

  /// The first entry with `key`, or nullptr.
  const YamlEntry* find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  YamlMark mark;
  YamlNode value = {};
};

/// Thrown for a text that parse_yaml refuses, with the place of the error.
class YamlError : public InputError {
 public:
  YamlError(YamlMark place, std::string message) : InputError(std::move(message)), mark(place) {}
  YamlMark mark;
};

/// Parses one YAML document, number `source`; an empty text gives a null node. Throws a YamlError
/// for invalid YAML or UTF-8, and for features that configurations do not use: anchors, aliases,
/// tags, a second document and control characters. The limits are max_yaml_bytes and a nesting
/// depth of 32.
YamlNode parse_yaml(std::string_view text, std::size_t source = 0);

/// The value of a scalar, or nothing if it is not a whole number. Numbers like 1e3 count as whole.
std::optional<std::int64_t> parse_whole_number(std::string_view text);
/// The value of a scalar, or nothing if it is not a finite decimal number.
std::optional<double> parse_number(std::string_view text);

/// A value as YAML in one line; texts that need no quotes have none.
std::string yaml_text(const nlohmann::ordered_json& value);

/// `text` in single quotes for a message, cut after 80 bytes. Control characters become \xNN.
std::string quote_for_message(std::string_view text);

}  // namespace nystrom
