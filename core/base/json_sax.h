// The event interface of the strict JSON parser. It serves readers that must not build a tree of
// unchecked content. It includes all of nlohmann/json: include it in .cpp files only.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

namespace nystrom {

/// Calls the on_… functions of a derived class for each event. It accepts the same language as
/// parse_json, which is stricter than nlohmann's parser.
class StrictSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  StrictSax(std::string source, int max_depth)
      : source_(std::move(source)), max_depth_(max_depth) {}

  /// Parses `text`. Throws an InputError as parse_json does.
  void parse(std::string_view text);

 protected:
  /// A string, integer, bool or null.
  virtual void on_value(nlohmann::json&& scalar) = 0;
  /// A number that is not an integer, with its text.
  virtual void on_float(double value, const std::string& /*text*/) { on_value(value); }
  /// A key of the current object.
  virtual void on_key(std::string&& key) = 0;
  /// The start of an array or an object.
  virtual void on_begin(bool is_array) = 0;
  /// The end of the current array or object.
  virtual void on_end() = 0;

  /// Throws an InputError "source:line:column: message" for the current position.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  bool null() final;
  bool boolean(bool value) final;
  bool number_integer(number_integer_t value) final;
  bool number_unsigned(number_unsigned_t value) final;
  bool number_float(number_float_t value, const string_t& text) final;
  bool string(string_t& value) final;
  bool binary(binary_t& value) final;
  bool start_object(std::size_t count) final;
  bool key(string_t& key) final;
  bool end_object() final;
  bool start_array(std::size_t count) final;
  bool end_array() final;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error) final;

  void begin(bool is_array);
  bool end();

  std::string source_;
  int max_depth_;
  std::string_view text_;
  std::size_t position_ = 0;                           // bytes read so far
  std::vector<std::unordered_set<std::string>> keys_;  // keys of each open object or array
};

}  // namespace nystrom
