#include "train/config/config_docs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/check.h"
#include "train/config/config.h"
#include "train/config/json_fields.h"
#include "train/config/yaml.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

/// The description of one option or section, from a line of a field list.
struct OptionDoc {
  enum class Kind { section, boolean, whole, number, text, word };

  std::string section, name, meaning;
  Kind kind = Kind::text;
  bool list = false, mapping = false, optional = false;
  bool or_text = false;  ///< a text may stand for each section (ShortSection)
  bool ramp = false;     ///< a number, or a mapping of steps to numbers
  Range range = any_number;
  std::vector<std::string> words = {};
  std::optional<Json> value = {};  ///< the default; absent if it depends on the tokenizer

  /// Whether it is a section, and not a list of sections.
  bool is_section() const { return kind == Kind::section && !list; }
  /// The path of the section of its own options.
  std::string own_section() const { return list ? path() + "[]" : path(); }
  /// Whether --set can name it: no section, and no option of the entries of a list.
  bool is_settable() const { return !is_section() && !section.ends_with("[]"); }

  std::string path() const { return path_in(section, name); }
};

template <class T>
void describe_type(OptionDoc& option) {
  using Kind = OptionDoc::Kind;
  if constexpr (is_optional<T>) {
    option.optional = true;
    describe_type<typename T::value_type>(option);
  } else if constexpr (is_vector<T>) {
    option.list = !is_mapping<T>;
    option.mapping = is_mapping<T>;
    if constexpr (is_mapping<T>)
      describe_type<typename T::value_type::second_type>(option);
    else
      describe_type<typename T::value_type>(option);
  } else if constexpr (std::is_enum_v<T>) {
    option.kind = Kind::word;
    option.words = names_of<T>();
  } else {
    option.or_text = ShortSection<T>;
    option.ramp = std::is_same_v<T, Ramp>;
    option.kind = Section<T>                                             ? Kind::section
                  : std::is_same_v<T, bool>                              ? Kind::boolean
                  : std::is_same_v<T, std::int64_t>                      ? Kind::whole
                  : std::is_same_v<T, double> || std::is_same_v<T, Ramp> ? Kind::number
                                                                         : Kind::text;
  }
}

/// Lists every section, followed by its options, for visit_options.
struct DocLister {
  std::vector<OptionDoc>& options;

  template <class T, class... Ranges>
  void operator()(const std::string& section, const char* name, const T& member,
                  const char* meaning, const Ranges&... range) const {
    OptionDoc option{.section = section, .name = name, .meaning = meaning};
    describe_type<T>(option);
    ((option.range = range), ...);
    if constexpr (!Section<T>) option.value = json_fields::Writer::value_of(member);
    const std::string entries = option.own_section();
    options.push_back(std::move(option));
    if constexpr (is_section_list<T>) {
      typename T::value_type entry;
      visit_options(entry, *this, entries);
    }
  }
};

std::vector<OptionDoc> all_options() {
  std::vector<OptionDoc> options;
  RunConfig defaults;
  visit_options(defaults, DocLister{options});
  // The default in ModelConfig applies only to models that are built without a file.
  for (OptionDoc& option : options)
    if (option.path() == "model.vocab_size") option.value.reset();
  return options;
}

// ---- Plain text ---------------------------------------------------------------------------------

std::string type_of(const OptionDoc& option) {
  using Kind = OptionDoc::Kind;
  std::string type = option.kind == Kind::boolean   ? "true or false"
                     : option.kind == Kind::whole   ? "whole number"
                     : option.kind == Kind::number  ? "number"
                     : option.kind == Kind::word    ? "word"
                     : option.kind == Kind::section ? "mapping"
                                                    : "text";
  if (option.list) type = (option.or_text ? "list of texts or " : "list of ") + type + "s";
  if (option.mapping) type = "mapping to " + type + "s";
  if (option.ramp) type += ", or mapping of steps to numbers";
  return option.optional ? type + " or null" : type;
}

std::string values_of(const OptionDoc& option) {
  if (option.kind == OptionDoc::Kind::word) return fmt::format("{}", fmt::join(option.words, ", "));
  return (option.range.odd ? "odd, " : "") + describe_bounds(option.range);
}

std::string default_of(const OptionDoc& option) {
  return option.value ? yaml_text(*option.value) : "the tokenizer's";
}

std::string explain(const OptionDoc& option) {
  std::string text = fmt::format("{}\n  meaning  {}\n  type     {}\n", option.path(),
                                 option.meaning, type_of(option));
  const std::string values = values_of(option);
  if (!values.empty())
    text += fmt::format("  {}    {}\n", option.kind == OptionDoc::Kind::word ? "words" : "range",
                        values);
  return text + fmt::format("  default  {}\n", default_of(option));
}

[[noreturn]] void throw_unknown(std::string_view key, const std::vector<OptionDoc>& options) {
  std::vector<std::string> paths, names;
  for (const OptionDoc& option : options) {
    paths.push_back(option.path());
    names.push_back(option.name);
  }
  std::string hint = did_you_mean(key, paths);
  if (hint.empty()) {  // the name may exist in another section
    if (const auto name = nearest(key.substr(key.rfind('.') + 1), names))
      hint = fmt::format(
          "; did you mean '{}'?",
          paths[static_cast<std::size_t>(std::ranges::find(names, *name) - names.begin())]);
  }
  throw InputError(fmt::format("unknown option {}{}; nystrom config --markdown lists all",
                               printable(key, 80), hint));
}

/// The path `key` of an option, or the paths of all options with that name.
std::vector<std::string> paths_called(std::string_view key) {
  std::vector<std::string> paths;
  for (const OptionDoc& option : all_options()) {
    if (!option.is_settable()) continue;
    if (option.path() == key) return {option.path()};
    if (option.name == key) paths.push_back(option.path());
  }
  return paths;
}

// ---- JSON Schema --------------------------------------------------------------------------------

/// The types of a text: the number of a column is its name.
Json text_types() { return {"string", "number", "boolean"}; }

/// The schema of one value, or of each item of a list.
Json schema_of_value(const OptionDoc& option) {
  using Kind = OptionDoc::Kind;
  const Range& range = option.range;
  Json types = option.kind == Kind::boolean  ? Json{"boolean"}
               : option.kind == Kind::whole  ? Json{"integer"}
               : option.kind == Kind::number ? Json{"number"}
               : option.kind == Kind::text   ? text_types()
                                             : Json{"string"};
  if (option.optional) types.push_back("null");
  Json schema = {{"type", types.size() == 1 ? types[0] : types}};
  if (!option.words.empty()) schema["enum"] = option.words;
  if (!option.words.empty() && option.optional) schema["enum"].push_back(nullptr);
  // Whole bounds are written without a fraction because editors show them.
  const auto bound = [](double x) {
    return x == std::trunc(x) ? Json(static_cast<std::int64_t>(x)) : Json(x);
  };
  if (std::isfinite(range.lower))
    schema[range.lower_open ? "exclusiveMinimum" : "minimum"] = bound(range.lower);
  if (std::isfinite(range.upper))
    schema[range.upper_open ? "exclusiveMaximum" : "maximum"] = bound(range.upper);
  if (range.odd) schema["not"] = {{"type", "integer"}, {"multipleOf", 2}};
  return schema;
}

Json mapping_to(const OptionDoc& option) {
  return {{"type", "object"}, {"additionalProperties", schema_of_value(option)}};
}

/// A list of texts, or of what one text may stand for: it may stand for the list too.
Json text_or(Json list) { return {{"anyOf", {{{"type", text_types()}}, std::move(list)}}}; }

Json list_of(const OptionDoc& option, Json item) {
  const bool text = option.or_text || option.kind == OptionDoc::Kind::text;
  Json list = {{"type", "array"}, {"items", std::move(item)}};
  return text ? text_or(std::move(list)) : list;
}

Json schema_of_section(const std::vector<OptionDoc>& options, const std::string& section) {
  Json properties = Json::object();
  for (const OptionDoc& option : options) {
    if (option.section != section) continue;
    const bool has_options = option.kind == OptionDoc::Kind::section;
    Json entry = has_options ? schema_of_section(options, option.own_section()) : Json();
    if (option.or_text) entry = text_or(std::move(entry));
    Json schema = option.is_section() ? std::move(entry)
                  : option.ramp    ? Json{{"anyOf", {schema_of_value(option), mapping_to(option)}}}
                  : has_options    ? list_of(option, std::move(entry))
                  : option.list    ? list_of(option, schema_of_value(option))
                  : option.mapping ? mapping_to(option)
                                   : schema_of_value(option);
    schema["description"] = option.meaning;
    if (option.value) schema["default"] = *option.value;
    properties[option.name] = std::move(schema);
  }
  return {
      {"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
}

// ---- Markdown -----------------------------------------------------------------------------------

constexpr const char* page_head = R"(# Configuration

Generated from the field lists in `train/config/config.h`, `nn/model_config.h` and
`data/tasks/task_config.h` by `./dev docs`; do not edit.

A run is one YAML file. Options that it leaves out have their defaults. `nystrom config --list`
names the recipes to start from, and `nystrom config small > my.yaml` copies one.
`nystrom config --explain training.batch_size` explains an option on the terminal.

On the command line `--set key=value` overrides the file: `--set training.steps=2000`,
`--set model.attention.num_landmarks=32`, `--set 'optimizer.betas=[0.9, 0.95]'`; the last one wins.
Whole numbers are digits, or any number without a fraction (`1e3`). Texts and words may stand in
quotes, numbers and booleans may not; `null` only where the type says so. A list of one text may be
the text itself: `train: corpus.txt`.

Some defaults follow from other options, and the tables have their values for the base model:

| left out | is then |
|---|---|
| `model.num_attention_heads` | `hidden_size` / 64, rounded, or the nearest fewer that divide it |
| `model.intermediate_size` | 4 · `hidden_size` |
| `model.max_position_embeddings` | `data.sequence_length`, at least 512 |
| `model.embed_dim`, `norm`, `positions` (features) | the width of the first training file, `pre`, `none` |
| `training.micro_batch_size` | the largest divisor of `batch_size` up to 32 |
| `optimizer.learning_rate` (tasks) | 3e-5 · (768 / `hidden_size`)², at most 1e-3 |
| `validation` and `validation_fraction` | a fraction: 0.05 of the documents, or of the text of few files, 0.1 of a task's examples |
| options of `model` beside `model.from` | those of the folder |

For completion and checks while typing: `nystrom config --schema > nystrom.schema.json`, and as the
first line of your file `# yaml-language-server: $schema=nystrom.schema.json`.
)";

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string row(const OptionDoc& option) {
  const std::string values = values_of(option);
  return fmt::format("| {} | {} | {} | {} | {} |\n", code(option.name), type_of(option),
                     option.value ? code(default_of(option)) : default_of(option), values,
                     option.meaning);
}

/// The table of the options directly in `section`.
std::string table(const std::vector<OptionDoc>& options, const std::string& section) {
  std::string rows;
  for (const OptionDoc& option : options)
    if (option.section == section && !option.is_section()) rows += row(option);
  return "\n| key | type | default | values | meaning |\n|---|---|---|---|---|\n" + rows;
}

}  // namespace

std::string config_markdown() {
  const std::vector<OptionDoc> options = all_options();
  std::string text = std::string(page_head) + "\n## At the top\n" + table(options, "");
  for (const OptionDoc& option : options) {
    if (option.kind != OptionDoc::Kind::section) continue;
    const std::string path = option.own_section();
    text += fmt::format("\n## {}: {}\n{}", path,
                        option.list ? "each entry of " + option.path() : option.meaning,
                        table(options, path));
  }
  return text;
}

std::string config_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "A run of nystrom"}};
  schema.update(schema_of_section(all_options(), ""));
  return schema.dump(2) + "\n";
}

std::string option_path(std::string_view key) {
  const std::vector<std::string> paths = paths_called(key);
  if (paths.empty()) {
    const std::vector<OptionDoc> options = all_options();
    for (const OptionDoc& option : options)
      require_input(!option.path().starts_with(std::string(key) + "."),
                    "{} is a section; name an option of it, such as {}", key, option.path());
    throw_unknown(key, options);
  }
  require_input(paths.size() == 1, "{} may be {}; name one", key, fmt::join(paths, " or "));
  return paths[0];
}

std::string option_name(const std::string& path) {
  const std::string last = path.substr(path.rfind('.') + 1);
  return paths_called(last) == std::vector{path} ? last : path;
}

std::vector<std::string> option_paths() {
  std::vector<std::string> paths;
  for (const OptionDoc& option : all_options())
    if (option.is_settable()) paths.push_back(option.path());
  return paths;
}

std::string full_override(const std::string& text) {
  const std::string name = text.substr(0, text.find('='));
  if (paths_called(name).empty()) return text;
  return with_context("--set", [&] { return option_path(name); }) + text.substr(name.size());
}

std::string explain_option(std::string_view key) {
  const std::vector<OptionDoc> options = all_options();
  const auto found = std::ranges::find(options, key, &OptionDoc::path);
  if (found == options.end()) throw_unknown(key, options);
  if (found->kind != OptionDoc::Kind::section) return explain(*found);
  std::string text = found->list ? explain(*found) : fmt::format("{}: {}\n", key, found->meaning);
  for (const OptionDoc& option : options) {
    const bool inside =
        !option.is_section() && option.path().starts_with(found->own_section() + ".");
    if (inside) text += "\n" + explain(option);
  }
  return text;
}

}  // namespace nystrom
