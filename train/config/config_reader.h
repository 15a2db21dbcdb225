// The visitor that fills structs from YAML, private to config_io.cpp. It does not stop at an error:
// it records the error with its place and continues.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/base/problem.h"
#include "core/base/suggest.h"
#include "train/config/yaml.h"

namespace nystrom {

/// A place in the input. Source 0 is the file, source i the i-th override. Line 0 means the whole
/// source.
struct Place {
  std::size_t source = 0;
  int line = 0;
  int column = 0;

  auto operator<=>(const Place&) const = default;
};

/// An option that the user gave, and whether its value could be read.
struct GivenOption {
  std::string path;
  Place place;
  bool understood = true;
};

/// The name of an option, and the path of its section.
struct KnownOption {
  std::string section;
  std::string name;
};

/// A visitor that lists every option. The list serves to suggest the right section for a misplaced
/// key.
struct OptionLister {
  std::vector<KnownOption>& options;
  std::string section;

  template <class T, class... Range>
  void operator()(T& member, const char* name, const char*, const Range&...) {
    options.push_back({section, name});
    if constexpr (Section<T>) {
      OptionLister inner{options, section.empty() ? name : section + "." + name};
      fields(inner, member);
    }
  }
};

/// The errors and the given options of one configuration. All of its readers share them.
class ConfigErrors {
 public:
  explicit ConfigErrors(std::vector<std::string> sources) : sources_(std::move(sources)) {}

  void add(const Place& place, std::string message) {
    errors_.push_back({place, std::move(message)});
  }
  void add_given(GivenOption option) { given_.push_back(std::move(option)); }
  /// Whether the option at `path` was given.
  bool is_given(std::string_view path) const {
    return std::ranges::find(given_, path, &GivenOption::path) != given_.end();
  }
  /// Records that the value given for the option at `path` could not be read.
  void misunderstood(std::string_view path);

  /// Adds the problems that validate() found. The place of a problem is the last one that gave one
  /// of its options or an enclosing section. A problem is left out if the value of one of these
  /// could not be read: it may only be a consequence.
  void add_problems(const Problems& problems);

  /// Throws an InputError if there are errors: one line for each, in the order of their places, and
  /// at most 50.
  void throw_if_any();

 private:
  struct Line {
    Place place;
    std::string message;
  };

  std::string format(const Line& line) const;

  std::vector<std::string> sources_;
  std::vector<Line> errors_;
  std::vector<GivenOption> given_;
};

/// The value of a scalar, or nothing if it is not a whole number. Numbers like 1e3 count as
/// whole.
std::optional<std::int64_t> parse_whole_number(std::string_view text);
/// The value of a scalar, or nothing if it is not a finite decimal number.
std::optional<double> parse_number(std::string_view text);
/// A description of a node for messages: "null", "a list", "a mapping", "'text'".
std::string describe_node(const YamlNode& node);

/// The context in which one file or override is read.
struct ReaderContext {
  ConfigErrors& errors;
  const std::vector<KnownOption>& options;
  std::size_t source = 0;

  Place place(const YamlMark& mark) const { return {source, mark.line, mark.column}; }
  /// Records an error for a key that is not among the keys `known` of `section`. The message
  /// suggests the nearest name, first among `known`, then among all options.
  void unknown_key(const YamlEntry& entry, const std::string& section,
                   const std::vector<std::string>& known) const;
};

/// The visitor that reads one section from a YAML mapping.
class SectionReader {
 public:
  SectionReader(const ReaderContext& context, const YamlNode& node, std::string section)
      : context_(context), node_(node), section_(std::move(section)) {}

  template <class T, class... Ranges>
  void operator()(T& member, const char* name, const char*, const Ranges&... range) {
    known_.emplace_back(name);
    const YamlEntry* entry = node_.find(name);
    if (!entry) return;
    context_.errors.add_given({.path = path(name), .place = context_.place(entry->mark)});
    const Range allowed = [&] {
      if constexpr (sizeof...(range) > 0)
        return Range{range...};
      else
        return any_number;
    }();
    // The parser gives no place for a null.
    const YamlMark mark =
        entry->value.kind == YamlNode::Kind::null ? entry->mark : entry->value.mark;
    if (!read(member, entry->value, mark, path(name), allowed))
      context_.errors.misunderstood(path(name));
  }

  /// Records an error for every key that no field has. Call it after fields().
  void report_unknown_keys() const {
    for (const YamlEntry& entry : node_.entries) {
      if (std::ranges::find(known_, entry.key) == known_.end())
        context_.unknown_key(entry, section_, known_);
    }
  }

 private:
  std::string path(std::string_view name) const {
    return section_.empty() ? std::string(name) : fmt::format("{}.{}", section_, name);
  }

  /// Reads `node` into `value`. Like the other read functions it records an error and returns false
  /// if the node does not fit. `or_null` is appended to the expected range in the message.
  template <class T>
  bool read(T& value, const YamlNode& node, const YamlMark& mark, const std::string& path,
            const Range& range, const char* or_null = "") {
    using Kind = YamlNode::Kind;
    const bool plain = node.kind == Kind::scalar && !node.quoted;
    if constexpr (is_optional<T>::value) {
      return read_optional(value, node, mark, path, range);
    } else if constexpr (is_vector<T>::value) {
      return read_list(value, node, mark, path, range);
    } else if constexpr (Section<T>) {
      return read_section(value, node, mark, path);
    } else if constexpr (std::is_same_v<T, Ramp>) {
      if (node.kind == Kind::mapping) return read_list(value.points, node, mark, path, range);
      double number = 0;
      if (!read(number, node, mark, path, range)) return false;
      value = number;
      return true;
    } else if constexpr (std::is_enum_v<T>) {
      return read_word(value, node, mark, path);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!plain || (node.text != "true" && node.text != "false"))
        return wrong(node, mark, path, "true or false");
      value = node.text == "true";
      return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (node.kind != Kind::scalar) return wrong(node, mark, path, "a text");
      value = node.text;
      return true;
    } else {
      constexpr bool whole = std::is_same_v<T, std::int64_t>;
      const std::optional<T> number = [&]() -> std::optional<T> {
        if (!plain) return std::nullopt;
        if constexpr (whole)
          return parse_whole_number(node.text);
        else
          return parse_number(node.text);
      }();
      if (!number || !range.contains(*number))
        return wrong(node, mark, path, describe(range, whole) + or_null);
      value = *number;
      return true;
    }
  }

  template <class T>
  bool read_optional(std::optional<T>& value, const YamlNode& node, const YamlMark& mark,
                     const std::string& path, const Range& range) {
    if (node.kind == YamlNode::Kind::null) {
      value.reset();
      return true;
    }
    T inner{};
    if (!read(inner, node, mark, path, range, ", or null")) return false;
    value = std::move(inner);
    return true;
  }

  template <class T>
  bool read_list(std::vector<T>& value, const YamlNode& node, const YamlMark& mark,
                 const std::string& path, const Range& range) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (node.kind == YamlNode::Kind::scalar) {  // one text is a list of one
        value = {node.text};
        return true;
      }
    }
    if constexpr (ShortSection<T>) {
      if (node.kind == YamlNode::Kind::scalar) {
        value = {T::of_text(node.text)};
        return true;
      }
    }
    if (node.kind != YamlNode::Kind::list) return wrong(node, mark, path, "a list such as [a, b]");
    std::vector<T> items;
    bool understood = true;
    for (const YamlNode& item : node.items) {
      T element{};
      understood &=
          read(element, item, item.mark, fmt::format("{}[{}]", path, items.size()), range);
      items.push_back(std::move(element));
    }
    if (understood) value = std::move(items);
    return understood;
  }

  /// Reads a mapping whose keys are free.
  template <class T>
  bool read_list(std::vector<std::pair<std::string, T>>& value, const YamlNode& node,
                 const YamlMark& mark, const std::string& path, const Range& range) {
    if (node.kind != YamlNode::Kind::mapping)
      return wrong(node, mark, path, "a mapping such as {a: b}");
    std::vector<std::pair<std::string, T>> items;
    bool understood = true;
    for (const YamlEntry& entry : node.entries) {
      T element{};
      const YamlMark& place =
          entry.value.kind == YamlNode::Kind::null ? entry.mark : entry.value.mark;
      understood &= read(element, entry.value, place, fmt::format("{}.{}", path, entry.key), range);
      items.emplace_back(entry.key, std::move(element));
    }
    if (understood) value = std::move(items);
    return understood;
  }

  template <class T>
  bool read_section(T& value, const YamlNode& node, const YamlMark& mark, const std::string& path) {
    if constexpr (ShortSection<T>) {
      if (node.kind == YamlNode::Kind::scalar) {
        value = T::of_text(node.text);
        return true;
      }
    }
    if (node.kind != YamlNode::Kind::mapping)
      return wrong(node, mark, path,
                   ShortSection<T> ? "a text, or a mapping of options" : "a mapping of options");
    SectionReader inner(context_, node, path);
    fields(inner, value);
    inner.report_unknown_keys();
    return true;
  }

  template <class T>
  bool read_word(T& value, const YamlNode& node, const YamlMark& mark, const std::string& path) {
    std::vector<std::string> words;
    for (const auto& entry : enum_names(value)) {
      if (node.kind == YamlNode::Kind::scalar && node.text == entry.name) {
        value = entry.value;
        return true;
      }
      words.emplace_back(entry.name);
    }
    return wrong(node, mark, path,
                 fmt::format("{}{}", fmt::join(words, " or "), did_you_mean(node.text, words)));
  }

  bool wrong(const YamlNode& node, const YamlMark& mark, const std::string& path,
             const std::string& expected) {
    context_.errors.add(context_.place(mark), fmt::format("{}: got {}, expected {}", path,
                                                          describe_node(node), expected));
    return false;
  }

  const ReaderContext& context_;
  const YamlNode& node_;
  std::string section_;
  std::vector<std::string> known_;
};

}  // namespace nystrom
