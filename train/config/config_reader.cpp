#include "train/config/config_reader.h"

#include <cmath>

#include "core/base/json.h"
#include "data/text/words.h"

namespace nystrom {
void ConfigErrors::misunderstood(std::string_view path) {
  given_.push_back({.path = std::string(path), .place = {}, .understood = false});
}

void ConfigErrors::add_problems(const Problems& problems) {
  for (const Problem& problem : problems) {
    Place place;
    bool understood = true;
    for (const std::string& option : problem.options) {
      for (const GivenOption& given : given_) {
        if (option != given.path && !option.starts_with(given.path + ".")) continue;
        understood &= given.understood;
        place = std::max(place, given.place);
      }
    }
    if (understood) add(place, problem.message);
  }
}

std::string ConfigErrors::format(const Line& line) const {
  const std::string& source = sources_[line.place.source];
  const bool placed = line.place.source == 0 && line.place.line > 0;
  if (placed)
    return fmt::format("{}:{}:{}: {}", source, line.place.line, line.place.column, line.message);
  return source.empty() ? line.message : fmt::format("{}: {}", source, line.message);
}

void ConfigErrors::throw_if_any() {
  constexpr std::size_t max_lines = 50;
  if (errors_.empty()) return;
  std::ranges::stable_sort(errors_, {}, &Line::place);
  std::string text;
  for (std::size_t i = 0; i < errors_.size() && i < max_lines; ++i)
    text += (i > 0 ? "\n" : "") + format(errors_[i]);
  if (errors_.size() > max_lines)
    text += fmt::format("\n… and {} more", errors_.size() - max_lines);
  throw InputError(text);
}

std::optional<double> parse_number(std::string_view text) {
  if (text.find_first_not_of("0123456789+-.eE") != std::string_view::npos)
    return std::nullopt;  // no inf, nan or hexadecimal
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('+')) return std::nullopt;
  return number_of<double>(text);
}

std::optional<std::int64_t> parse_whole_number(std::string_view text) {
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  const auto value = number_of<std::int64_t>(digits);
  if (value && !text.starts_with("+-")) return value;
  const auto number = parse_number(text);
  if (!number || std::abs(*number) > static_cast<double>(max_json_count) ||
      *number != std::trunc(*number))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string describe_node(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null: return "null";
    case YamlNode::Kind::list: return "a list";
    case YamlNode::Kind::mapping: return "a mapping";
    case YamlNode::Kind::scalar: break;
  }
  return (node.quoted ? "the text " : "") + quote_for_message(node.text);
}

void ReaderContext::unknown_key(const YamlEntry& entry, const std::string& section,
                                const std::vector<std::string>& known) const {
  const auto path_in = [](const std::string& in, const std::string& key) {
    return in.empty() ? key : in + "." + key;
  };
  const std::string path = path_in(section, entry.key);
  std::string hint;
  if (entry.key == "causal" || entry.key == "is_causal" || entry.key == "is_decoder") {
    hint =
        "a causal Nyström model cannot be built: landmarks are means over the whole sequence, so "
        "every position would see the future";
  } else if (const auto here = nearest(entry.key, known)) {
    hint = fmt::format("did you mean '{}'?", *here);
    errors.misunderstood(path_in(section, *here));
  } else {
    std::vector<std::string> names;
    for (const KnownOption& option : options) names.push_back(option.name);
    const auto elsewhere = nearest(entry.key, names);
    if (elsewhere) {
      std::string where;
      for (const KnownOption& option : options) {
        if (option.name != *elsewhere) continue;
        errors.misunderstood(path_in(option.section, option.name));
        where += (where.empty() ? "" : " or ") +
                 (option.section.empty() ? "at the top" : "in '" + option.section + "'");
      }
      hint = *elsewhere == entry.key ? "it belongs " + where
                                     : fmt::format("did you mean '{}'? ({})", *elsewhere, where);
    } else {
      hint = fmt::format("expected one of {}", fmt::join(known, ", "));
    }
  }
  errors.add(place(entry.mark), fmt::format("unknown key {}; {}", quote_for_message(path), hint));
}

}  // namespace nystrom
