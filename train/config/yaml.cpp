// This parser uses the events of yaml-cpp, not its nodes: nodes lose duplicate keys and quotes, and
// expand aliases.
#include "train/config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/base/words.h"

namespace nystrom {
namespace {

constexpr std::size_t deepest = 32;

YamlMark from_yaml_cpp(const YAML::Mark& mark, std::size_t source = 0) {
  if (mark.is_null()) return {source};
  return {source, mark.line + 1, mark.column + 1};
}

/// Builds the tree from events. `open_` holds the lists and mappings that are not closed yet,
/// outermost first.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, std::size_t source) : text_(text), source_(source) {
    root_.mark = {source};
  }
  /// The tree. Throws a YamlError for a key that no colon follows.
  YamlNode take_root() {
    if (lone_key_) throw YamlError(*lone_key_);
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      throw YamlError(from_yaml_cpp(mark),
                      "a second document begins here, by a '---' or '...'; expected one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (!open_.empty() && open_.back().key_read && !lone_key_) find_lone_key(open_.back(), mark);
    add(make_node(mark, YamlNode::Kind::null));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YamlError(from_yaml_cpp(mark), "aliases (*name) are not supported; write the value out");
  }

  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    throw YamlError(from_yaml_cpp(mark),
                    "anchors (&name) are not supported; write the value where it is used");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    refuse_tag(mark, tag);
    YamlNode node = make_node(mark, YamlNode::Kind::scalar);
    node.text = text;
    node.quoted = tag == "!";
    add(std::move(node));
    if (!open_.empty() && open_.back().key_read) open_.back().key_begin = mark.pos;
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, YamlNode::Kind::mapping);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    bool key_read = false;  // the last entry of a mapping has no value yet
    int key_begin = 0;      // its place in the text
  };

  /// Notes the last key of `parent` if no colon stands behind it, though a null begins at `mark`:
  /// in a block the key itself has this mark, and in braces the , or } behind it. yaml-cpp may
  /// still find an error.
  void find_lone_key(const Open& parent, const YAML::Mark& mark) {
    const auto key = static_cast<std::size_t>(parent.key_begin);
    const auto end = static_cast<std::size_t>(mark.pos);
    const std::string_view behind = text_.substr(key, end - key);
    const bool in_braces = end < text_.size() && (text_[end] == ',' || text_[end] == '}');
    const bool comment = behind.find('#') != behind.npos;
    if (end != key && (!in_braces || comment || behind[behind.find_last_not_of(" \t\r\n")] == ':'))
      return;
    const YamlEntry& entry = parent.node.entries.back();
    const bool joined = entry.key.find(':') != std::string::npos;
    lone_key_.emplace(entry.mark,
                      quote_for_message(entry.key) +
                          (joined      ? " has no blank behind its colon; write 'key: value'"
                           : in_braces ? " has no colon and no value; write 'key: value'"
                                       : " has no colon and no value; is the file cut off?"));
  }

  YamlNode make_node(const YAML::Mark& mark, YamlNode::Kind kind) const {
    return {.kind = kind, .mark = from_yaml_cpp(mark, source_), .entries = {}};
  }

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    const bool plain_or_quoted = tag.empty() || tag == "?" || tag == "!";
    if (!plain_or_quoted)
      throw YamlError(from_yaml_cpp(mark), "tags (!name) are not supported; write the plain value");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YamlNode::Kind kind) {
    refuse_tag(mark, tag);
    if (open_.size() == deepest)
      throw YamlError(from_yaml_cpp(mark), fmt::format("nested deeper than {} levels", deepest));
    open_.push_back({make_node(mark, kind)});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.key_read) {
      YamlEntry& entry = parent.node.entries.back();
      // yaml-cpp gives no place for a null.
      if (node.kind == YamlNode::Kind::null) node.mark = entry.mark;
      entry.value = std::move(node);
      parent.key_read = false;
    } else {
      if (node.kind != YamlNode::Kind::scalar) throw YamlError(node.mark, "a key must be a word");
      parent.node.entries.push_back({.key = std::move(node.text), .mark = node.mark});
      parent.key_read = true;
    }
  }

  std::string_view text_;
  std::size_t source_;
  YamlNode root_;  // null without any event
  std::vector<Open> open_;
  std::optional<YamlError> lone_key_;
  int documents_ = 0;
};

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') ||
         c == '\x7f';
}

/// Throws a YamlError for invalid UTF-8 and control characters. yaml-cpp silently replaces invalid
/// UTF-8 and treats byte 4 as the end of the file.
void check_letters(std::string_view text) {
  YamlMark mark;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = valid_utf8_character(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0)
      throw YamlError(mark, fmt::format("not UTF-8: byte 0x{:02x}; save the file as UTF-8", byte));
    if (is_control(text[i]))
      throw YamlError(mark, fmt::format("control character 0x{:02x}; remove it", byte));
    if (text[i] == '\n')
      mark = {0, mark.line + 1, 1};
    else
      mark.column += static_cast<int>(length);
    i += length;
  }
}

/// Throws a YamlError for a line that begins with %, unless it is a directive before a document
/// that begins with ---. yaml-cpp takes it for a directive elsewhere too, and passes over it.
void check_directives(std::string_view text) {
  std::optional<YamlMark> directive;
  bool content = false;
  YamlMark mark;
  for (std::size_t begin = 0; begin < text.size(); mark = {0, mark.line + 1, 1}) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    const bool percent = line[0] == '%';
    if (percent && !content && !directive) directive = mark;
    if (percent ? content : directive && !content && !line.starts_with("---"))
      throw YamlError(percent ? mark : *directive,
                      "begins with %, as directives do, which stand before a ---; remove the line, "
                      "or quote the word");
    content |= !percent;
  }
}

/// The first tab in the indentation of a line, if there is one.
std::optional<YamlMark> tab_in_indentation(std::string_view text) {
  YamlMark mark;
  for (bool indents = true; const char c : text) {
    if (indents && c == '\t') return mark;
    indents = c == '\n' || (indents && c == ' ');
    mark = c == '\n' ? YamlMark{0, mark.line + 1, 1} : YamlMark{0, mark.line, mark.column + 1};
  }
  return std::nullopt;
}

bool reads_back_unquoted(const std::string& text) {
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!letter(text[0]) && text[0] != '/') return false;
  return std::ranges::all_of(
      text, [&](char c) { return letter(c) || (c >= '0' && c <= '9') || std::strchr("_./-", c); });
}

std::string quoted_where_needed(const std::string& text) {
  if (reads_back_unquoted(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += fmt::format("\\{}", c);
    else if (byte < 0x20 || byte == 0x7f)
      quoted += fmt::format("\\x{:02x}", byte);
    else
      quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

const YamlEntry* YamlNode::find(std::string_view key) const {
  for (const YamlEntry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

YamlNode parse_yaml(std::string_view text, std::size_t source) {
  if (text.size() > max_yaml_bytes)
    throw YamlError({}, "larger than 1 MiB; a configuration is a short text");
  check_letters(text);
  check_directives(text);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  // yaml-cpp takes the end of a line at the end of the text for the quote that is missing.
  const std::size_t last = text.find_last_not_of(" \n\r");
  text = text.substr(0, last == text.npos ? 0 : last + 1);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(text, source);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (const auto tab = tab_in_indentation(text))
      throw YamlError(*tab, "not valid YAML: a tab indents the line; use spaces");
    const auto told = [&](const char* word) { return error.msg.find(word) != std::string::npos; };
    throw YamlError(
        from_yaml_cpp(error.mark),
        "not valid YAML: " + error.msg +
            (told("anchor")              ? "; quote patterns that begin with *, as in '**/*.txt'"
             : told("illegal map value") ? "; is a blank missing behind a colon above?"
             : told("invalid unicode")
                 ? "; write the character itself, as json.dumps(…, ensure_ascii=False) does"
                 : ""));
  }
  return builder.take_root();
}

std::optional<double> parse_number(std::string_view text) {
  if (text.find_first_not_of("0123456789+-.eE") != std::string_view::npos)
    return std::nullopt;  // no inf, nan or hexadecimal
  return signed_number_of(text);
}

std::optional<std::int64_t> parse_whole_number(std::string_view text) {
  if (const auto value = signed_number_of<std::int64_t>(text)) return value;
  const auto number = parse_number(text);
  if (!number || std::abs(*number) > static_cast<double>(max_json_count) ||
      *number != std::trunc(*number))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string yaml_text(const nlohmann::ordered_json& value) {
  if (value.is_string()) return quoted_where_needed(value.get<std::string>());
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> items;
  for (const auto& [key, item] : value.items())
    items.push_back((value.is_object() ? quoted_where_needed(key) + ": " : "") + yaml_text(item));
  const std::string listed = fmt::format("{}", fmt::join(items, ", "));
  return value.is_object() ? "{" + listed + "}" : "[" + listed + "]";
}

std::string quote_for_message(std::string_view text) { return "'" + printable(text, 80) + "'"; }

}  // namespace nystrom
