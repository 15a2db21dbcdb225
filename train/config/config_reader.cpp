#include "train/config/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <type_traits>

#include "core/base/printable.h"
#include "core/base/suggest.h"

namespace nystrom {
namespace {

/// The options that overrides of a model from a folder may set.
struct ModelOverrides {
  ModelConfig& model;
};

template <class V>
void fields(V& v, ModelOverrides& c) {
  v(c.model, "model", "the model");
}

/// A description of a node for messages: "null", "a list", "a mapping", "'text'".
std::string describe_node(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null: return "null";
    case YamlNode::Kind::list: return "a list";
    case YamlNode::Kind::mapping: return "a mapping";
    case YamlNode::Kind::scalar: break;
  }
  return (node.quoted ? "the text " : "") + quote_for_message(node.text);
}

/// Whether a value is one character that YAML gives a meaning, as no override of one character has.
bool is_mark(std::string_view value) {
  return value.size() == 1 && std::string_view(",|>&*!%@`?:-#").find(value[0]) != value.npos;
}

/// Whether YAML would read less than the whole of a plain text.
bool loses_part(std::string_view value) {
  if (value.empty() || is_mark(value) || std::string_view("\"'[{").find(value[0]) != value.npos)
    return false;
  constexpr std::string_view blanks = " \t";
  // A comment, a directive, a tag, or the begin or end of a document.
  for (const std::string_view mark : {"---", "..."})
    if (value.starts_with(mark) &&
        (value.size() == mark.size() || blanks.find(value[mark.size()]) != blanks.npos))
      return true;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf", headers = "|>#%!";
  if (value.starts_with(byte_order_mark) || headers.find(value[0]) != headers.npos) return true;
  if (blanks.find(value.front()) != blanks.npos || blanks.find(value.back()) != blanks.npos)
    return true;
  return value.find_first_of("\n\r") != value.npos || value.find(" #") != value.npos ||
         value.find("\t#") != value.npos;
}

/// Parses an override `a.b=value` into the mapping {a: {b: value}}. Throws a YamlError.
YamlNode override_tree(const std::string& text, std::size_t source) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const bool empty_part =
      key.empty() || key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos;
  if (equals == std::string::npos || empty_part)
    throw YamlError({}, "expected key=value, such as optimizer.learning_rate=3e-4");
  const std::string_view value = std::string_view(text).substr(equals + 1);
  if (value.empty())
    throw YamlError(
        {}, fmt::format("has no value; give one, or null, or an empty text: '{}=\"\"'", key));
  YamlNode tree = is_mark(value) ? YamlNode{.kind = YamlNode::Kind::scalar,
                                            .text = std::string(value),
                                            .quoted = true,
                                            .mark = {source},
                                            .entries = {}}
                                 : parse_yaml(value, source);
  if (loses_part(value))
    throw YamlError(
        {}, fmt::format("of {} YAML drops a comment, a mark or blanks at its ends; put it in "
                        "double quotes: '{}=\"{}\"'",
                        quote_for_message(std::string(value)), key, printable(value)));
  std::size_t end = key.size();
  for (int depth = 0; end != std::string::npos; ++depth) {
    if (depth == 32) throw YamlError({}, "the key has more than 32 parts");
    const std::size_t dot = end == 0 ? std::string::npos : key.rfind('.', end - 1);
    const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
    YamlNode parent{
        .kind = YamlNode::Kind::mapping, .mark = {source}, .entries = {}, .dotted = true};
    parent.entries.push_back({key.substr(begin, end - begin), {source}, std::move(tree)});
    tree = std::move(parent);
    end = dot;
  }
  return tree;
}

}  // namespace

/// The visitor that reads one section from a YAML mapping.
class ConfigReader::SectionReader {
 public:
  SectionReader(ConfigReader& reader, const YamlNode& node, std::string section)
      : reader_(reader), node_(node), section_(std::move(section)) {}

  template <class T, class... Ranges>
  void operator()(T& member, const char* name, const char*, const Ranges&... range) {
    known_.emplace_back(name);
    const YamlEntry* entry = node_.find(name);
    if (!entry) return;
    const std::string path = path_in(section_, name);
    reader_.given_.push_back({.path = path, .place = entry->mark});
    Range allowed = any_number;
    ((allowed = range), ...);
    if (!read(member, entry->value, path, allowed)) reader_.misunderstood(path);
  }

  /// Records an error for every key that no field has. Call it after fields().
  void report_unknown_keys() const {
    for (const YamlEntry& entry : node_.entries) {
      if (std::ranges::find(known_, entry.key) == known_.end())
        reader_.unknown_key(entry, section_, known_);
    }
  }

 private:
  using Kind = YamlNode::Kind;

  // Each function reads `node` into `value`. If the node does not fit, it records an error and
  // returns false. `or_null` is appended to the expected range in the message.

  template <class T>
  bool read(T& value, const YamlNode& node, const std::string& path, const Range& range,
            const char* or_null = "") {
    if constexpr (Section<T>) {
      return read_section(value, node, path);
    } else if constexpr (std::is_enum_v<T>) {
      return read_word(value, node, path);
    } else {
      constexpr bool whole = std::is_same_v<T, std::int64_t>;
      std::optional<T> number;
      if (is_plain(node)) {
        if constexpr (whole)
          number = parse_whole_number(node.text);
        else
          number = parse_number(node.text);
      }
      if (!number || !range.contains(*number)) {
        const bool digits = node.text.find_first_not_of("+-0123456789") == std::string::npos;
        const auto real =
            whole && is_plain(node) && !number ? parse_number(node.text) : std::nullopt;
        const char* limit = !real || *real != std::trunc(*real) ? ""
                            : digits                            ? ", and smaller than 2^63"
                                                                : ", above 2^53 in digits alone";
        return wrong(node, path, describe(range, whole) + limit + or_null);
      }
      value = *number;
      return true;
    }
  }

  bool read(bool& value, const YamlNode& node, const std::string& path, const Range&,
            const char* = "") {
    if (!is_plain(node) || (node.text != "true" && node.text != "false"))
      return wrong(node, path, "true or false");
    value = node.text == "true";
    return true;
  }

  bool read(std::string& value, const YamlNode& node, const std::string& path, const Range&,
            const char* = "") {
    if (node.kind != Kind::scalar) return wrong(node, path, "a text");
    if (node.text.find('\0') != std::string::npos)
      return wrong(node, path, "a text without the character NUL");
    value = node.text;
    return true;
  }

  bool read(Ramp& value, const YamlNode& node, const std::string& path, const Range& range,
            const char* = "") {
    if (node.kind == Kind::mapping) return read(value.points, node, path, range);
    double number = 0;
    if (!read(number, node, path, range)) return false;
    value = number;
    return true;
  }

  template <class T>
  bool read(std::optional<T>& value, const YamlNode& node, const std::string& path,
            const Range& range, const char* = "") {
    if (node.kind == Kind::null) {
      value.reset();
      return true;
    }
    T inner{};
    if (!read(inner, node, path, range, ", or null")) return false;
    value = std::move(inner);
    return true;
  }

  template <class T>
  bool read(std::vector<T>& value, const YamlNode& node, const std::string& path,
            const Range& range, const char* = "") {
    std::vector<T> items;
    bool understood = true;
    const auto add = [&](const YamlNode& item, const std::string& place) {
      T element{};
      understood &= read(element, item, place, range);
      items.push_back(std::move(element));
    };
    if ((std::is_same_v<T, std::string> || ShortSection<T>)&&node.kind == Kind::scalar)
      add(node, path);  // one text is a list of one
    else if (node.kind != Kind::list)
      return wrong(node, path, "a list such as [a, b]");
    for (const YamlNode& item : node.items) add(item, fmt::format("{}[{}]", path, items.size()));
    if (understood) value = std::move(items);
    return understood;
  }

  /// Reads a mapping whose keys are free; of whole numbers 3e0 is 3. An override of one key leaves
  /// the others.
  template <class T>
  bool read(std::vector<std::pair<std::string, T>>& value, const YamlNode& node,
            const std::string& path, const Range& range, const char* = "") {
    if (node.kind != Kind::mapping) return wrong(node, path, "a mapping such as {a: b}");
    std::vector<std::pair<std::string, T>> items;
    if (node.dotted) items = value;
    bool understood = true;
    for (const YamlEntry& entry : node.entries) {
      T element{};
      understood &=
          read(element, entry.value, fmt::format("{}.{}", path, printable(entry.key, 40)), range);
      const auto whole = parse_whole_number(entry.key);
      const std::string key = whole ? std::to_string(*whole) : entry.key;
      const auto there = std::ranges::find(items, key, &std::pair<std::string, T>::first);
      if (node.dotted && there != items.end())
        there->second = std::move(element);
      else
        items.emplace_back(key, std::move(element));
    }
    if (understood) value = std::move(items);
    return understood;
  }

  template <class T>
  bool read_section(T& value, const YamlNode& node, const std::string& path) {
    if constexpr (ShortSection<T>) {
      if (node.kind == Kind::scalar) {
        value = T::of_text(node.text);
        return true;
      }
    }
    if (node.kind != Kind::mapping)
      return wrong(node, path,
                   ShortSection<T> ? "a text, or a mapping of options" : "a mapping of options");
    SectionReader inner(reader_, node, path);
    fields(inner, value);
    inner.report_unknown_keys();
    return true;
  }

  template <class T>
  bool read_word(T& value, const YamlNode& node, const std::string& path) {
    const auto named = value_named<T>(node.text);
    if (named && node.kind == Kind::scalar) {
      value = *named;
      return true;
    }
    const std::vector<std::string> words = names_of<T>();
    return wrong(node, path,
                 fmt::format("{}{}", fmt::join(words, " or "), did_you_mean(node.text, words)));
  }

  static bool is_plain(const YamlNode& node) { return node.kind == Kind::scalar && !node.quoted; }

  bool wrong(const YamlNode& node, const std::string& path, const std::string& expected) {
    reader_.add_error(node.mark,
                      fmt::format("{}: got {}, expected {}", path, describe_node(node), expected));
    return false;
  }

  ConfigReader& reader_;
  const YamlNode& node_;
  std::string section_;
  std::vector<std::string> known_;
};

ConfigReader::ConfigReader(std::optional<std::string_view> text, const std::string& name,
                           std::span<const std::string> overrides)
    : sources_{name} {
  if (text) parse_file(*text);
  for (const std::string& each : overrides) {
    const std::size_t source = sources_.size();
    sources_.push_back("--set " + printable(each, 80));
    try {
      add_tree(override_tree(each, source));
    } catch (const YamlError& error) {
      add_error({source, 0, 0}, error.what());
    }
  }
}

void ConfigReader::parse_file(std::string_view text) {
  try {
    YamlNode node = parse_yaml(text);
    const std::string got = node.kind == YamlNode::Kind::null ? "nothing" : describe_node(node);
    if (node.kind == YamlNode::Kind::mapping)
      add_tree(std::move(node));
    else
      add_error(node.mark, fmt::format("got {}, expected sections such as 'model:'", got));
  } catch (const YamlError& error) {
    add_error(error.mark, error.what());
    throw_if_any();  // nothing was read, so any further error would be a consequence
  }
}

void ConfigReader::add_tree(YamlNode node) {
  report_duplicates(node, "");
  trees_.push_back(std::move(node));
}

void ConfigReader::report_duplicates(const YamlNode& node, const std::string& path) {
  for (const YamlNode& item : node.items) report_duplicates(item, path);
  std::map<std::string_view, int> lines;
  for (const YamlEntry& entry : node.entries) {
    const std::string entry_path = path_in(path, entry.key);
    const auto [first, fresh] = lines.emplace(entry.key, entry.mark.line);
    if (!fresh)
      add_error(entry.mark, fmt::format("duplicate key {}; first given in line {}: remove one",
                                        quote_for_message(entry_path), first->second));
    report_duplicates(entry.value, entry_path);
  }
}

template <class Root>
void ConfigReader::read_all(Root& root) {
  options_.clear();
  visit_options(root, [&](const std::string& section, const char* name, const auto&...) {
    options_.emplace_back(section, name);
  });
  for (const YamlNode& tree : trees_) {
    SectionReader reader(*this, tree, "");
    fields(reader, root);
    reader.report_unknown_keys();
  }
}

void ConfigReader::read_into(RunConfig& config) { read_all(config); }

void ConfigReader::read_into(ModelConfig& model) {
  ModelOverrides root{model};
  read_all(root);
}

/// Records an error for a key that is not among the keys `known` of `section`. The message suggests
/// the nearest name, first among `known`, then among all options.
void ConfigReader::unknown_key(const YamlEntry& entry, const std::string& section,
                               const std::vector<std::string>& known) {
  // Names of options in other programs, or their beginnings.
  constexpr std::pair<std::string_view, const char*> foreign[] = {
      {"class_weight", "task.balance"},
      {"early_stopping", "evaluation.early_stop_patience"},
      {"patience", "evaluation.early_stop_patience"}};
  const auto* const own = std::ranges::find_if(
      foreign, [&](const auto& each) { return entry.key.starts_with(each.first); });
  std::string hint;
  if (own != std::end(foreign)) {
    hint = fmt::format("did you mean '{}'?", own->second);
    misunderstood(own->second);
  } else if (entry.key == "causal" || entry.key == "is_causal" || entry.key == "is_decoder") {
    hint =
        "a causal Nyström model cannot be built: landmarks are means over the whole sequence, so "
        "every position would see the future";
  } else if (const auto here = nearest(entry.key, known)) {
    hint = fmt::format("did you mean '{}'?", *here);
    misunderstood(path_in(section, *here));
  } else {
    std::vector<std::string> names;
    for (const auto& [place, name] : options_) names.push_back(name);
    const auto elsewhere = nearest(entry.key, names);
    if (elsewhere) {
      std::string where;
      for (const auto& [place, name] : options_) {
        if (name != *elsewhere) continue;
        misunderstood(path_in(place, name));
        where +=
            (where.empty() ? "" : " or ") + (place.empty() ? "at the top" : "in '" + place + "'");
      }
      hint = *elsewhere == entry.key ? "it belongs " + where
                                     : fmt::format("did you mean '{}'? ({})", *elsewhere, where);
    } else {
      hint = fmt::format("expected one of {}", fmt::join(known, ", "));
    }
  }
  add_error(entry.mark, fmt::format("unknown key {}; {}",
                                    quote_for_message(path_in(section, entry.key)), hint));
}

/// Records that the value given for the option at `path` could not be read.
void ConfigReader::misunderstood(std::string path) {
  given_.push_back({.path = std::move(path), .place = {0, 0, 0}, .understood = false});
}

bool ConfigReader::is_given(std::string_view path) const {
  return std::ranges::find(given_, path, &GivenOption::path) != given_.end();
}

std::set<std::string> ConfigReader::given() const {
  std::set<std::string> paths;
  for (const GivenOption& given : given_) paths.insert(given.path);
  return paths;
}

void ConfigReader::add_problems(const Problems& problems) {
  for (const Problem& problem : problems) {
    std::optional<YamlMark> own, of_section;  // the last ones
    bool understood = true;
    for (const std::string& option : problem.options) {
      for (const GivenOption& given : given_) {
        if (option != given.path && !option.starts_with(given.path + ".")) continue;
        understood &= given.understood;
        std::optional<YamlMark>& place = option == given.path ? own : of_section;
        place = std::max(place, std::optional(given.place));
      }
    }
    if (understood)
      add_error(own.value_or(of_section.value_or(YamlMark{0, 0, 0})), problem.message);
  }
}

std::string ConfigReader::line_of(const YamlMark& place, const std::string& message) const {
  const std::string& source = sources_[place.source];
  if (place.source == 0 && place.line > 0)
    return fmt::format("{}:{}:{}: {}", source, place.line, place.column, message);
  return source.empty() ? message : fmt::format("{}: {}", source, message);
}

void ConfigReader::throw_if_any() {
  constexpr std::size_t max_lines = 50;
  if (errors_.empty()) return;
  std::ranges::stable_sort(errors_, {}, &std::pair<YamlMark, std::string>::first);
  std::string text;
  for (std::size_t i = 0; i < errors_.size() && i < max_lines; ++i)
    text += (i > 0 ? "\n" : "") + line_of(errors_[i].first, errors_[i].second);
  if (errors_.size() > max_lines)
    text += fmt::format("\n… and {} more", errors_.size() - max_lines);
  throw InputError(text);
}

}  // namespace nystrom
