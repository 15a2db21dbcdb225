// The visitor that fills structs from YAML, private to config_io.cpp. It never stops at an error:
// it notes the place and goes on.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/fields.h"
#include "core/base/problem.h"
#include "core/base/suggest.h"
#include "train/config/yaml.h"

namespace nystrom {

/// Where something was given: source 0 is the file, i the i-th override. Line 0: the source as a
/// whole.
struct Place {
  std::size_t source = 0;
  int line = 0;
  int column = 0;

  auto operator<=>(const Place&) const = default;
};

/// An option that the user gave, and whether its value was understood.
struct GivenOption {
  std::string path;
  Place place;
  bool understood = true;
};

/// The name of an option anywhere in the configuration and of the section it stands in.
struct KnownOption {
  std::string section;
  std::string name;
};

/// Lists every option: how a key in the wrong section finds its home.
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

/// What all readers of one configuration share.
class ConfigErrors {
 public:
  explicit ConfigErrors(std::vector<std::string> sources) : sources_(std::move(sources)) {}

  void add(const Place& place, std::string message) {
    errors_.push_back({place, std::move(message)});
  }
  void add_given(GivenOption option) { given_.push_back(std::move(option)); }
  /// Notes that what was given for the option at `path` was not understood.
  void misunderstood(std::string_view path);

  /// Adds what validate() found: each problem stands at the last place that gave one of its options
  /// or a section around it. It is left out if one of them was not understood, so that no line
  /// follows from another.
  void add_problems(const Problems& problems);

  /// Throws InputError with all lines in order, if there are any.
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

/// The value of a scalar, or nothing if it is not of the type.
std::optional<std::int64_t> parse_whole_number(std::string_view text);
std::optional<double> parse_number(std::string_view text);
/// "null", "a list", "a mapping", "'text'".
std::string describe_node(const YamlNode& node);

/// Everything a reader of one file or override knows besides the node it reads.
struct ReaderContext {
  ConfigErrors& errors;
  const std::vector<KnownOption>& options;
  std::size_t source = 0;

  Place place(const YamlMark& mark) const { return {source, mark.line, mark.column}; }
  /// Notes that `section` knows only the keys `known`, with the nearest of them or of all options.
  void unknown_key(const YamlEntry& entry, const std::string& section,
                   const std::vector<std::string>& known) const;
};

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
    // A null has no place of its own.
    const YamlMark mark =
        entry->value.kind == YamlNode::Kind::null ? entry->mark : entry->value.mark;
    if (!read(member, entry->value, mark, path(name), allowed))
      context_.errors.misunderstood(path(name));
  }

  /// To call after the field list has been walked.
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

  /// Each `read` returns whether the value was understood; if not, it has noted why.
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

  template <class T>
  bool read_section(T& value, const YamlNode& node, const YamlMark& mark, const std::string& path) {
    if (node.kind != YamlNode::Kind::mapping)
      return wrong(node, mark, path, "a mapping of options");
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
