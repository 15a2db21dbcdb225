// A value of a JSON file together with where it stands, for messages. Pulls in all of
// nlohmann/json: include it in .cpp files only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace nystrom {

class JsonPart {
 public:
  /// `where` is the file's name.
  JsonPart(const nlohmann::json& value, std::string file)
      : value_(&value), file_(std::move(file)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  /// "file" or "file: normalizer.normalizers[2]"
  std::string where() const { return path_.empty() ? file_ : file_ + ": " + path_; }
  /// InputError "file: path: message".
  [[noreturn]] void fail(const std::string& message) const;

  /// The member `key`; InputError when this is no object or lacks it.
  JsonPart operator[](const char* key) const;
  /// The member `key`; nothing when it is absent or null.
  std::optional<JsonPart> find(const char* key) const;
  /// The elements; InputError when this is no array.
  std::vector<JsonPart> elements() const;

  // InputError for a value of another type.
  std::string text() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;

  // The member `key`, or `otherwise` when it is absent or null.
  std::string text_or(const char* key, const std::string& otherwise) const;
  bool boolean_or(const char* key, bool otherwise) const;

 private:
  JsonPart(const nlohmann::json& value, const JsonPart& parent, std::string path)
      : value_(&value), file_(parent.file_), path_(std::move(path)) {}
  [[noreturn]] void fail_type(const char* expected) const;

  const nlohmann::json* value_;
  std::string file_, path_;
};

}  // namespace nystrom
