#include "core/base/json.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
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

/// Builds the tree from the events of nlohmann's parser, and refuses what that lets pass.
class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, std::string source, NumberReader read_number,
              std::size_t max_values)
      : text_(text),
        source_(std::move(source)),
        read_number_(read_number),
        max_values_(max_values) {}
  ~TreeBuilder() override { clear_tree(root_); }
  TreeBuilder(const TreeBuilder&) = delete;
  TreeBuilder& operator=(const TreeBuilder&) = delete;

  nlohmann::json parse() {
    if (text_.starts_with("\xef\xbb\xbf"))
      fail("the text starts with a byte order mark; save it as plain UTF-8");
    // nlohmann's parser takes a NUL byte as the end and would ignore the rest.
    if (const auto nul = text_.find('\0'); nul != std::string_view::npos) {
      position_ = nul + 1;
      fail("a NUL byte");
    }
    nlohmann::json::sax_parse(CountingIterator(text_.data(), position_),
                              CountingIterator(text_.data() + text_.size(), position_),
                              static_cast<nlohmann::json_sax<nlohmann::json>*>(this));
    return std::move(root_);
  }

 private:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return add(read_number_ != nullptr ? read_number_(text) : nlohmann::json(value));
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // text JSON has no binary values
  bool start_object(std::size_t) override { return begin(nlohmann::json::object()); }
  bool start_array(std::size_t) override { return begin(nlohmann::json::array()); }
  bool end_object() override { return open_.pop_back(), true; }
  bool end_array() override { return open_.pop_back(), true; }
  bool key(string_t& key) override {
    if (open_.back()->contains(key)) fail(fmt::format("key \"{}\" appears twice", printable(key)));
    key_ = std::move(key);
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    const std::string_view rest = text_.substr(position_ == 0 ? 0 : position_ - 1);
    std::string_view message = error.what();
    const bool in_string = message.find(" - invalid string: ") != message.npos;
    if (!in_string && (rest.starts_with("NaN") || rest.starts_with("Infinity")))
      fail("NaN and Infinity are no JSON, though Python's json writes them; put a number or null");
    // Skips "[json.exception.parse_error.101] " of "[json.exception.parse_error.101] parse error at
    // line 1, column 2: …".
    message.remove_prefix(message.find("] ") + 2);
    if (message.starts_with("parse error")) message.remove_prefix(message.find(": ") + 2);
    const bool overflow = message.starts_with("number overflow");
    fail(printable(message) + (overflow ? "; expected one that fits 64 bits" : ""));
  }

  bool begin(nlohmann::json&& empty) {
    if (std::ssize(open_) >= max_json_depth)
      fail(fmt::format("nested deeper than {} levels", max_json_depth));
    add(std::move(empty));
    open_.push_back(last_);
    return true;
  }

  bool add(nlohmann::json&& value) {
    if (values_++ == max_values_) fail(fmt::format("more than {} values", max_values_));
    if (open_.empty()) {
      root_ = std::move(value);
      last_ = &root_;
    } else if (nlohmann::json& parent = *open_.back(); parent.is_object()) {
      last_ = &(parent[key_] = std::move(value));
    } else {
      parent.push_back(std::move(value));
      last_ = &parent.back();
    }
    return true;
  }

  /// Throws an InputError "source:line:column: message" for the current position.
  [[noreturn]] void fail(const std::string& message) const {
    const std::string_view before = text_.substr(0, position_ == 0 ? 0 : position_ - 1);
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::size_t line_start = before.rfind('\n') + 1;  // 0 without one
    throw InputError(
        fmt::format("{}:{}:{}: {}", source_, line, before.size() - line_start + 1, message));
  }

  std::string_view text_;
  std::string source_;
  NumberReader read_number_;
  std::size_t max_values_, values_ = 0, position_ = 0;  // position_: bytes read so far
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  nlohmann::json* last_ = nullptr;
  std::string key_;
};

}  // namespace

void clear_tree(nlohmann::json& tree) noexcept {
  if (!tree.is_structured()) return;
  for (nlohmann::json& each : tree) clear_tree(each);
  tree.clear();
}

nlohmann::json keep_digits(std::string_view text) {
  if (text.find_first_of(".eE") == text.npos) return std::string(text);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

nlohmann::json parse_json(std::string_view text, const std::string& source,
                          NumberReader read_number, std::size_t max_values) {
  return TreeBuilder(text, source, read_number, max_values).parse();
}

nlohmann::json read_json_file(const std::filesystem::path& path, std::size_t max_bytes) {
  return parse_json(read_text_file(path, max_bytes), printable_path(path));
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  return read_json_file(path, max_config_bytes);
}

const char* json_kind(const nlohmann::json& value) {
  return value.is_array()     ? "a list"
         : value.is_object()  ? "an object"
         : value.is_string()  ? "a text"
         : value.is_number()  ? "a number"
         : value.is_boolean() ? "true or false"
                              : "null";
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
