#include "core/base/json_part.h"

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/require.h"

namespace nystrom {

void JsonPart::fail(const std::string& message) const {
  throw InputError(where() + ": " + message);
}

void JsonPart::fail_type(const char* expected) const {
  const nlohmann::json& value = *value_;
  fail(fmt::format(
      "got {}, expected {}",
      value.is_object() ? "an object"
      : value.is_array()
          ? "a list"
          : printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60),
      expected));
}

JsonPart JsonPart::operator[](const char* key) const {
  if (!value_->is_object()) fail_type("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("'{}' is missing", key));
  return {*found, *this, path_.empty() ? key : path_ + "." + key};
}

std::optional<JsonPart> JsonPart::find(const char* key) const {
  if (!value_->is_object()) fail_type("an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return (*this)[key];
}

std::vector<JsonPart> JsonPart::elements() const {
  if (!value_->is_array()) fail_type("a list");
  std::vector<JsonPart> parts;
  for (const nlohmann::json& each : *value_)
    parts.push_back({each, *this, fmt::format("{}[{}]", path_, parts.size())});
  return parts;
}

std::vector<std::pair<std::string, JsonPart>> JsonPart::members(const char* expected) const {
  if (!value_->is_object()) fail_type(expected);
  std::vector<std::pair<std::string, JsonPart>> parts;
  for (const auto& [key, value] : value_->items())
    parts.emplace_back(key,
                       JsonPart(value, *this, (path_.empty() ? "" : path_ + ".") + printable(key)));
  return parts;
}

void JsonPart::refuse_others(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, part] : members())
    if (std::ranges::find(keys, key) == keys.end())
      fail(fmt::format("'{}' is unknown, expected {}", printable(key), fmt::join(keys, ", ")));
}

std::string JsonPart::text() const {
  if (!value_->is_string()) fail_type("a text");
  return value_->get<std::string>();
}

bool JsonPart::boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

double JsonPart::number() const {
  if (!value_->is_number()) fail_type("a number");
  return value_->get<double>();
}

std::int64_t JsonPart::integer(std::int64_t least, std::int64_t most) const {
  const std::string expected = least == INT64_MIN
                                   ? "a whole number"
                                   : fmt::format("a whole number from {} to {}", least, most);
  if (!value_->is_number_integer()) fail_type(expected.c_str());
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    fail_type(expected.c_str());
  const auto number = value_->get<std::int64_t>();
  if (number < least || number > most) fail_type(expected.c_str());
  return number;
}

std::string JsonPart::text_or(const char* key, const std::string& otherwise) const {
  const auto found = find(key);
  return found ? found->text() : otherwise;
}

bool JsonPart::boolean_or(const char* key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->boolean() : otherwise;
}

}  // namespace nystrom
