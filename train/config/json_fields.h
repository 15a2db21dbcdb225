// Visitors of field lists (core/base/fields.h) over JSON objects: one reads their members, and one
// writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/fields.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom::json_fields {

using nlohmann::json;
using nlohmann::ordered_json;

/// A JSON value as error messages show it.
inline std::string shown(const json& value) {
  if (!value.is_structured()) return printable(value.dump(), 60);
  return fmt::format("an {}{}", value.empty() ? "empty " : "", value.type_name());
}

/// Words with commas between them.
inline std::string listed(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

/// A visitor of field lists that reads each member from a JSON object. Absent keys leave their
/// members unchanged.
class Reader {
 public:
  /// `prefix` is put before keys in messages ("nystrom.attention.").
  Reader(const json& object, std::string source, std::string prefix = "")
      : object_(object), source_(std::move(source)), prefix_(std::move(prefix)) {}

  template <class T>
  void operator()(T& member, const char* name, const char* = "", const Range& range = any_number) {
    seen_.insert(name);
    if (const json* value = find(name)) assign(member, *value, name, range);
  }

  /// Throws an InputError for keys that no field requested.
  void refuse_unknown() const {
    for (const auto& [key, value] : object_.items())
      if (!seen_.contains(key))
        fail(printable(key), "unknown key; known are " + listed({seen_.begin(), seen_.end()}));
  }

  /// Returns the value of a key, or null when it is absent.
  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    throw InputError(fmt::format("{}: {}{}: {}", source_, prefix_, name, message));
  }
  [[noreturn]] void fail_type(const std::string& name, const std::string& expected,
                              const json& got) const {
    fail(name, fmt::format("expected {}, got {}", expected, shown(got)));
  }

 private:
  template <class T>
  void assign(T& member, const json& value, const char* name, const Range& range) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) fail_type(name, "true or false", value);
      member = value.get<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.is_string()) fail_type(name, "a string", value);
      member = value.get<std::string>();
    } else if constexpr (std::is_arithmetic_v<T>) {
      constexpr bool whole = std::is_same_v<T, std::int64_t>;
      // The JSON library stores integers above the largest int64 as unsigned; they would overflow.
      const bool fits =
          !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
      const bool typed = whole ? value.is_number_integer() && fits : value.is_number();
      if (!typed || !range.contains(value.get<T>())) fail_type(name, describe(range, whole), value);
      member = value.get<T>();
    } else if constexpr (std::is_enum_v<T>) {
      const auto named =
          value.is_string() ? value_named<T>(value.get_ref<const std::string&>()) : std::nullopt;
      if (!named) fail_type(name, "one of " + listed(names_of<T>()), value);
      member = *named;
    } else {
      if (!value.is_object()) fail_type(name, "an object", value);
      Reader inner(value, source_, prefix_ + name + ".");
      fields(inner, member);
      inner.refuse_unknown();
    }
  }

  template <class T>
  void assign(std::optional<T>& member, const json& value, const char* name, const Range& range) {
    if (value.is_null()) {
      member.reset();
      return;
    }
    T inner{};
    assign(inner, value, name, range);
    member = inner;
  }

  template <class T>
  void assign(std::vector<std::pair<std::string, T>>& member, const json& value, const char* name,
              const Range& range) {
    if (!value.is_object()) fail_type(name, "an object", value);
    member.clear();
    for (const auto& [key, each] : value.items()) {
      T inner{};
      assign(inner, each, fmt::format("{}.{}", name, printable(key)).c_str(), range);
      member.emplace_back(key, inner);
    }
  }

  template <class T>
  void assign(std::vector<T>& member, const json& value, const char* name, const Range& range) {
    if (!value.is_array()) fail_type(name, "an array", value);
    member.clear();
    for (const json& each : value) {
      T inner{};
      assign(inner, each, fmt::format("{}[{}]", name, member.size()).c_str(), range);
      member.push_back(inner);
    }
  }

  const json& object_;
  std::string source_;
  std::string prefix_;
  std::set<std::string> seen_;
};

/// A visitor that writes each member into a JSON object.
struct Writer {
  json& object;

  template <class T, class... Rest>
  void operator()(const T& member, const char* name, Rest&&...) {
    object[name] = value_of(member);
  }

  /// The value of a member, with the options of a section in the order of its field list.
  template <class T>
  static ordered_json value_of(const T& member) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return member;
    } else if constexpr (std::is_enum_v<T>) {
      return enum_name(member);
    } else if constexpr (std::is_same_v<T, Ramp>) {
      return member == T(member.last()) ? value_of(member.last()) : value_of(member.points);
    } else {
      if constexpr (ShortSection<T>) {
        if (const auto text = member.as_text()) return *text;
      }
      ordered_json section = ordered_json::object();
      const auto add = [&](const auto& option, const char* name, const auto&...) {
        section[name] = value_of(option);
      };
      T copy = member;  // field lists need a mutable struct
      fields(add, copy);
      return section;
    }
  }
  template <class T>
  static ordered_json value_of(const std::vector<std::pair<std::string, T>>& member) {
    ordered_json mapping = ordered_json::object();
    for (const auto& [key, value] : member) mapping[key] = value_of(value);
    return mapping;
  }
  template <class T>
  static ordered_json value_of(const std::vector<T>& member) {
    ordered_json list = ordered_json::array();
    for (const T& value : member) list.push_back(value_of(value));
    return list;
  }
  template <class T>
  static ordered_json value_of(const std::optional<T>& member) {
    return member ? value_of(*member) : ordered_json(nullptr);
  }
};

}  // namespace nystrom::json_fields
