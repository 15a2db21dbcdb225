// Field lists of options. Each option of the program is declared once, as a line in its struct's
// `fields` function. All readers, writers, help texts and schemas are visitors of these lines
// (train/config/config_io.h).
//
//   template <class V> void fields(V& v, OptimizerOptions& c) {
//     v(c.learning_rate, "learning_rate", "peak learning rate", positive);
//   }
//
// A visitor is called as v(member, name, help, range…). A member is a bool, an int64, a double, a
// std::string, an enum, or a struct with its own `fields`. An optional or a vector of these is also
// possible, and a Ramp; a range then applies to the values within. A vector of pairs of a
// std::string and one of these is a mapping in files. A vector of structs is a list of mappings, or
// of texts that stand for them (ShortSection).
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/ramp.h"

namespace nystrom {

enum class DType : unsigned char;

/// The permitted values of a number: lower ≤ x ≤ upper. `lower_open` and `upper_open` exclude the
/// ends. `odd` applies to whole numbers.
struct Range {
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
  bool lower_open = false;
  bool upper_open = false;
  bool odd = false;

  /// Whether x is permitted.
  constexpr bool contains(double x) const {
    return (lower_open ? x > lower : x >= lower) && (upper_open ? x < upper : x <= upper);
  }
  constexpr bool contains(std::int64_t x) const {
    return contains(static_cast<double>(x)) && (!odd || x % 2 != 0);
  }
};

inline constexpr Range any_number{};
inline constexpr Range positive{.lower = 0, .lower_open = true};
/// Of numbers by which f32 divides: what is smaller gives infinities there.
inline constexpr Range positive_in_f32{.lower = 1e-37};
inline constexpr Range not_negative{.lower = 0};
inline constexpr Range probability{.lower = 0, .upper = 1};
inline constexpr Range positive_probability{.lower = 0, .upper = 1, .lower_open = true};
inline constexpr Range open_probability{
    .lower = 0, .upper = 1, .lower_open = true, .upper_open = true};
inline constexpr Range below_one{.lower = 0, .upper = 1, .upper_open = true};
inline constexpr Range odd_positive{.lower = 1, .odd = true};
/// Numbers from `lower` on.
constexpr Range at_least(double lower) { return {.lower = lower}; }
/// Numbers from `lower` to `upper`, both included.
constexpr Range between(double lower, double upper) { return {.lower = lower, .upper = upper}; }

/// The limits only: "at least 1", "greater than 0", "between 0 and 1"; empty without limits. The
/// text does not mention oddness.
std::string describe_bounds(const Range& range);
/// A description of the permitted numbers, for messages: "a whole number at least 1", "an odd whole
/// number at least 1", "a number greater than 0".
std::string describe(const Range& range, bool whole);

// ---- Names of enumerators ----------------------------------------------------------------------

/// A value of an enum and its name in files.
template <class E>
struct EnumName {
  E value;
  const char* name;
};

/// The enumerator of this value as the source spells it; empty if there is none.
template <auto value>
constexpr std::string_view enumerator() {
  // GCC and clang end it in "[value = nystrom::Norm::pre]"; a number stands for what has no name.
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("value = ") + 8);
  text = text.substr(0, text.find_first_of(";]"));
  text.remove_prefix(text.find_last_of(":)") + 1);
  return text[0] >= '0' && text[0] <= '9' ? std::string_view() : text;
}

/// The same with a zero behind it.
template <auto value>
inline constexpr auto enumerator_text = [] {
  std::array<char, enumerator<value>().size() + 1> text{};
  std::ranges::copy(enumerator<value>(), text.begin());
  return text;
}();

/// The number of enumerators from 0 on.
template <class E, int... i>
constexpr int count_enumerators(std::integer_sequence<int, i...>) {
  static_assert(enumerator<static_cast<E>(sizeof...(i) - 1)>().empty(), "an enum of too many");
  return (0 + ... + (enumerator<static_cast<E>(i)>().empty() ? 0 : 1));
}

template <class E, int... i>
inline constexpr EnumName<E> enumerator_names[] = {
    {static_cast<E>(i), enumerator_text<static_cast<E>(i)>.data()}...};

template <class E, int... i>
std::span<const EnumName<E>> names_of_enumerators(std::integer_sequence<int, i...>) {
  return enumerator_names<E, i...>;
}

/// The names of all values: the enumerators, which count from 0 on, as they are spelled. An enum
/// with other names has an overload beside it; that of DType is in train/config/config.h.
template <class E>
requires(std::is_enum_v<E> &&
         !std::is_same_v<E, DType>) std::span<const EnumName<E>> enum_names(E) {
  constexpr int count = count_enumerators<E>(std::make_integer_sequence<int, 32>());
  return names_of_enumerators<E>(std::make_integer_sequence<int, count>());
}

/// The name of `value`.
template <class E>
const char* enum_name(E value) {
  for (const auto& entry : enum_names(value))
    if (entry.value == value) return entry.name;
  return "?";
}

/// The names of `values`.
template <class E>
std::vector<std::string> names_of(const std::vector<E>& values) {
  std::vector<std::string> names;
  for (const E value : values) names.emplace_back(enum_name(value));
  return names;
}

/// The names of all values of an enum.
template <class E>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& entry : enum_names(E{})) names.emplace_back(entry.name);
  return names;
}

/// The value with this name; nothing if there is none.
template <class E>
std::optional<E> value_named(std::string_view name) {
  for (const auto& entry : enum_names(E{}))
    if (name == entry.name) return entry.value;
  return std::nullopt;
}

// ---- Type traits for visitors ------------------------------------------------------------------

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

/// A mapping in files: a vector of keys and values, in the order of the file.
template <class T>
inline constexpr bool is_mapping = false;
template <class T>
inline constexpr bool is_mapping<std::vector<std::pair<std::string, T>>> = true;

/// A struct with its own field list.
template <class T>
concept Section = std::is_class_v<T> && !std::is_same_v<T, std::string> &&
                  !std::is_same_v<T, Ramp> && !is_optional<T> && !is_vector<T>;

/// A section for which files may have a text alone. as_text() is nothing where the section holds
/// more than that.
template <class T>
concept ShortSection = Section<T> && requires(const T& section, const std::string& text) {
  { T::of_text(text) } -> std::same_as<T>;
  { section.as_text() } -> std::same_as<std::optional<std::string>>;
};

/// A list of structs with their own field lists.
template <class T>
inline constexpr bool is_section_list = false;
template <Section T>
inline constexpr bool is_section_list<std::vector<T>> = !is_mapping<std::vector<T>>;

}  // namespace nystrom
