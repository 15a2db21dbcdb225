#include "core/base/json.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/base/file_io.h"
#include "core/base/json_sax.h"
#include "core/base/printable.h"
#include "core/base/require.h"

namespace nystrom {
namespace {

/// An iterator that counts the bytes read, which nlohmann's parser does not report to its
/// callbacks.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t& count) : at_(at), count_(&count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  std::size_t* count_;
};

/// Builds the tree.
class TreeBuilder final : public StrictSax {
 public:
  TreeBuilder(std::string source, NumberReader read_number)
      : StrictSax(std::move(source), max_json_depth), read_number_(read_number) {}
  nlohmann::json take() { return std::move(root_); }

 private:
  void on_value(nlohmann::json&& scalar) override { add(std::move(scalar)); }
  void on_float(double value, const std::string& text) override {
    add(read_number_ != nullptr ? read_number_(text) : nlohmann::json(value));
  }
  void on_key(std::string&& key) override { key_ = std::move(key); }
  void on_begin(bool is_array) override {
    open_.push_back(add(is_array ? nlohmann::json::array() : nlohmann::json::object()));
  }
  void on_end() override { open_.pop_back(); }

  nlohmann::json* add(nlohmann::json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    nlohmann::json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  NumberReader read_number_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  std::string key_;
};

}  // namespace

void StrictSax::parse(std::string_view text) {
  text_ = text;
  position_ = 0;
  keys_.clear();
  if (text.starts_with("\xef\xbb\xbf"))
    fail("the text starts with a byte order mark; save it as plain UTF-8");
  // nlohmann's parser takes a NUL byte as the end and would ignore the rest.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    position_ = nul + 1;
    fail("a NUL byte");
  }
  nlohmann::json::sax_parse(CountingIterator(text.data(), position_),
                            CountingIterator(text.data() + text.size(), position_),
                            static_cast<nlohmann::json_sax<nlohmann::json>*>(this));
}

void StrictSax::fail(const std::string& message) const {
  const std::string_view before = text_.substr(0, position_ == 0 ? 0 : position_ - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw InputError(
      fmt::format("{}:{}:{}: {}", source_, line, before.size() - line_start + 1, message));
}

bool StrictSax::null() { return on_value(nullptr), true; }
bool StrictSax::boolean(bool value) { return on_value(value), true; }
bool StrictSax::number_integer(number_integer_t value) { return on_value(value), true; }
bool StrictSax::number_unsigned(number_unsigned_t value) { return on_value(value), true; }
bool StrictSax::number_float(number_float_t value, const string_t& text) {
  return on_float(value, text), true;
}
bool StrictSax::string(string_t& value) { return on_value(std::move(value)), true; }
bool StrictSax::binary(binary_t&) { return false; }  // text JSON has no binary values

bool StrictSax::start_object(std::size_t) { return begin(false), true; }
bool StrictSax::start_array(std::size_t) { return begin(true), true; }
bool StrictSax::end_object() { return end(); }
bool StrictSax::end_array() { return end(); }

void StrictSax::begin(bool is_array) {
  if (keys_.size() >= static_cast<std::size_t>(max_depth_))
    fail(fmt::format("nested deeper than {} levels", max_depth_));
  keys_.emplace_back();
  on_begin(is_array);
}

bool StrictSax::end() {
  keys_.pop_back();
  on_end();
  return true;
}

bool StrictSax::key(string_t& key) {
  if (!keys_.back().insert(key).second)
    fail(fmt::format("key \"{}\" appears twice", printable(key)));
  on_key(std::move(key));
  return true;
}

bool StrictSax::parse_error(std::size_t, const std::string&,
                            const nlohmann::json::exception& error) {
  std::string_view message = error.what();
  // Skips "[json.exception.parse_error.101] " of "[json.exception.parse_error.101] parse error at
  // line 1, column 2: …".
  message.remove_prefix(message.find("] ") + 2);
  if (message.starts_with("parse error")) message.remove_prefix(message.find(": ") + 2);
  fail(printable(message));
}

nlohmann::json keep_digits(std::string_view text) {
  if (text.find_first_of(".eE") == text.npos) return std::string(text);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

nlohmann::json parse_json(std::string_view text, const std::string& source,
                          NumberReader read_number) {
  TreeBuilder builder(source, read_number);
  builder.parse(text);
  return builder.take();
}

nlohmann::json read_json_file(const std::filesystem::path& path, std::size_t max_bytes) {
  return parse_json(read_text_file(path, max_bytes), printable_path(path));
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  return read_json_file(path, max_config_bytes);
}

std::int64_t json_count(const nlohmann::json& value, const std::string& name) {
  const bool count = value.is_number_unsigned() && value.get<std::uint64_t>() <= max_json_count;
  require_input(count, "{} is {}, expected a whole number from 0 to {}", name,
                printable(value.dump()), max_json_count);
  return value.get<std::int64_t>();
}

double number_or_nan(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace nystrom
