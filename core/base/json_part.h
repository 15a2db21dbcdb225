// A JSON value with its path in the file, for error messages. This header includes all of
// nlohmann/json, so only .cpp files should include it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace nystrom {

/// A tree that is destroyed without allocating (clear_tree).
struct JsonTree {
  nlohmann::json root;

  explicit JsonTree(nlohmann::json&& tree) : root(std::move(tree)) {}
  JsonTree(const JsonTree&) = delete;
  JsonTree& operator=(const JsonTree&) = delete;
  ~JsonTree() { clear_tree(root); }
};

/// A value of a JSON file. All errors are InputErrors with its path.
class JsonPart {
 public:
  /// The root of the file `file`.
  JsonPart(const nlohmann::json& value, std::string file)
      : value_(&value), file_(std::move(file)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  /// The path: "file" or "file: normalizer.normalizers[2]".
  std::string where() const { return path_.empty() ? file_ : file_ + ": " + path_; }
  /// Throws an InputError "file: path: message".
  [[noreturn]] void fail(const std::string& message) const;

  /// The member `key`. Throws an InputError when this is not an object or has no such member.
  JsonPart operator[](const char* key) const;
  /// The member `key`, or nothing when it is absent or null.
  std::optional<JsonPart> find(const char* key) const;
  /// The elements. Throws an InputError when this is not an array.
  std::vector<JsonPart> elements() const;
  /// The members. Throws an InputError when this is not an object, which `expected` describes.
  std::vector<std::pair<std::string, JsonPart>> members(const char* expected = "an object") const;
  /// Throws an InputError for a member that is not among `keys`.
  void refuse_others(std::initializer_list<std::string_view> keys) const;

  // The value as a C++ type. Each function throws an InputError for another type; integer() also
  // for a value outside its limits.
  std::string text() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;

  // The member `key`, or `otherwise` when it is absent or null. Throws an InputError for another
  // type.
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
