#include "train/config/config_io.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "data/tasks/bags.h"
#include "train/config/config_reader.h"
#include "train/config/validation.h"

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

void report_duplicates(const YamlNode& node, const std::string& path, std::size_t source,
                       ConfigErrors& errors) {
  for (const YamlNode& item : node.items) report_duplicates(item, path, source, errors);
  std::map<std::string_view, int> lines;
  for (const YamlEntry& entry : node.entries) {
    const std::string entry_path = path.empty() ? entry.key : path + "." + entry.key;
    const auto [first, fresh] = lines.emplace(entry.key, entry.mark.line);
    if (!fresh)
      errors.add({source, entry.mark.line, entry.mark.column},
                 fmt::format("duplicate key {}; first given in line {}: remove one",
                             quote_for_message(entry_path), first->second));
    report_duplicates(entry.value, entry_path, source, errors);
  }
}

/// Parses an override `a.b=value` into the mapping {a: {b: value}}. Throws a YamlError.
YamlNode override_tree(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const bool empty_part =
      key.empty() || key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos;
  if (equals == std::string::npos || empty_part)
    throw YamlError({}, "expected key=value, such as optimizer.learning_rate=3e-4");
  YamlNode tree = parse_yaml(std::string_view(text).substr(equals + 1));
  std::size_t end = key.size();
  for (int depth = 0; end != std::string::npos; ++depth) {
    if (depth == 32) throw YamlError({}, "the key has more than 32 parts");
    const std::size_t dot = end == 0 ? std::string::npos : key.rfind('.', end - 1);
    const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
    YamlNode parent;
    parent.kind = YamlNode::Kind::mapping;
    parent.entries.push_back(
        {.key = key.substr(begin, end - begin), .mark = {}, .value = std::move(tree)});
    tree = std::move(parent);
    end = dot;
  }
  return tree;
}

/// A file and its overrides, parsed once, and all that is wrong in them.
class ConfigReader {
 public:
  /// `text` is nothing for overrides alone.
  ConfigReader(std::optional<std::string_view> text, const std::string& name, Overrides overrides)
      : errors_(sources(name, overrides)) {
    if (text) parse_file(*text);
    for (std::size_t i = 0; i < overrides.size(); ++i) {
      try {
        add_tree(override_tree(overrides[i]), i + 1);
      } catch (const YamlError& error) {
        errors_.add({i + 1}, error.what());
      }
    }
  }

  ConfigErrors& errors() { return errors_; }

  /// Reads all into `root`. Options that are not given keep their values.
  template <class Root>
  void read_into(Root& root) {
    std::vector<KnownOption> options;
    OptionLister lister{options, ""};
    fields(lister, root);
    for (const auto& [node, source] : trees_) {
      const ReaderContext context{errors_, options, source};
      SectionReader reader(context, node, "");
      fields(reader, root);
      reader.report_unknown_keys();
    }
  }

 private:
  struct Tree {
    YamlNode node;
    std::size_t source;
  };

  static std::vector<std::string> sources(const std::string& name, Overrides overrides) {
    std::vector<std::string> names = {name};
    for (const std::string& text : overrides) names.push_back("--set " + printable(text, 80));
    return names;
  }

  void parse_file(std::string_view text) {
    try {
      YamlNode node = parse_yaml(text);
      const std::string got = node.kind == YamlNode::Kind::null ? "nothing" : describe_node(node);
      if (node.kind == YamlNode::Kind::mapping)
        add_tree(std::move(node), 0);
      else
        errors_.add({0, node.mark.line, node.mark.column},
                    fmt::format("got {}, expected sections such as 'model:'", got));
    } catch (const YamlError& error) {
      errors_.add({0, error.mark.line, error.mark.column}, error.what());
      errors_.throw_if_any();  // nothing was read, so any further error would be a consequence
    }
  }

  void add_tree(YamlNode node, std::size_t source) {
    report_duplicates(node, "", source, errors_);
    trees_.push_back({std::move(node), source});
  }

  ConfigErrors errors_;
  std::vector<Tree> trees_;
};

bool reads_back_unquoted(const std::string& text) {
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!letter(text[0]) && text[0] != '/') return false;
  return std::ranges::all_of(
      text, [&](char c) { return letter(c) || (c >= '0' && c <= '9') || std::strchr("_./-", c); });
}

std::string format_value(const std::string& text) {
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

template <class T>
std::string format_value(const T& value);
template <class T>
std::string format_value(const std::optional<T>& value);
template <class T>
std::string format_value(const std::vector<T>& values);
template <class T>
std::string format_value(const std::vector<std::pair<std::string, T>>& values);

/// A visitor that writes a section as a mapping in one line.
struct MappingWriter {
  std::vector<std::string> items = {};

  template <class T, class... Ranges>
  void operator()(T& member, const char* name, const char*, const Ranges&...) {
    items.push_back(fmt::format("{}: {}", name, format_value(member)));
  }
};

template <class T>
std::string format_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return enum_name(value);
  } else if constexpr (std::is_same_v<T, Ramp>) {
    return value == Ramp(value.last()) ? format_value(value.last()) : format_value(value.points);
  } else if constexpr (Section<T>) {
    if constexpr (ShortSection<T>) {
      if (const auto text = value.as_text()) return format_value(*text);
    }
    T copy = value;  // field lists take a mutable struct
    MappingWriter writer;
    fields(writer, copy);
    return fmt::format("{{{}}}", fmt::join(writer.items, ", "));
  } else {
    return fmt::format("{}", value);
  }
}

template <class T>
std::string format_value(const std::optional<T>& value) {
  return value ? format_value(*value) : "null";
}

template <class T>
std::string format_value(const std::vector<std::pair<std::string, T>>& values) {
  std::vector<std::string> items;
  for (const auto& [key, value] : values)
    items.push_back(fmt::format("{}: {}", format_value(key), format_value(value)));
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

template <class T>
std::string format_value(const std::vector<T>& values) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(format_value(value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

/// Calls `write(path, value)` for every option and `enter(path)` for every section, in order. Skips
/// the sections that the run does not use: `pretraining`, `masking` and `distillation` if there is
/// a task, else `task`.
template <class Enter, class Write>
struct OptionVisitor {
  bool task;
  Enter enter;
  Write write;
  std::vector<std::string> path = {};

  template <class T, class... Ranges>
  void operator()(T& member, const char* name, const char*, const Ranges&...) {
    const std::string_view key = name;
    const bool of_text = key == "pretraining" || key == "masking" || key == "distillation";
    if (path.empty() && (task ? of_text : key == "task")) return;
    path.emplace_back(name);
    if constexpr (Section<T>) {
      enter(path);
      fields(*this, member);
    } else {
      write(path, format_value(member));
    }
    path.pop_back();
  }
};

template <class Enter, class Write>
void visit_options(const RunConfig& config, Enter enter, Write write) {
  RunConfig copy = config;  // field lists take a mutable struct
  OptionVisitor<Enter, Write> visitor{has_task(config), enter, write};
  fields(visitor, copy);
}

/// Whether the options of a model come from a folder, or from their plain defaults.
enum class ModelDefaults { plain, of_folder };

/// The largest divisor of `number` that is at most `limit`.
std::int64_t largest_divisor(std::int64_t number, std::int64_t limit) {
  std::int64_t divisor = std::clamp(limit, std::int64_t{1}, number);
  while (number % divisor != 0) --divisor;
  return divisor;
}

/// Sets the defaults of a model that starts from no folder, for its width.
void set_model_defaults(RunConfig& defaults, const RunConfig& given) {
  ModelConfig& model = defaults.model;
  model.hidden_size = given.model.hidden_size;
  model.intermediate_size = 4 * model.hidden_size;
  constexpr std::int64_t head_width = 64;
  model.num_attention_heads =
      largest_divisor(model.hidden_size, (model.hidden_size + head_width / 2) / head_width);
  model.max_position_embeddings =
      std::max(model.max_position_embeddings, given.data.sequence_length);
  if (given.task.kind != TaskKind::features) return;
  model.norm = Norm::pre;
  model.positions = Positions::none;
}

/// Sets what follows from the objective of pretraining.
void set_pretraining_head(RunConfig& config) {
  config.model.generator.reset();
  if (config.pretraining.objective == PretrainingObjective::replaced_tokens &&
      config.model.head == Head::masked_lm) {
    config.model.head = Head::replaced_tokens;
    config.model.generator = config.pretraining.generator;
  }
  config.model.sentence_order =
      config.masking.sentence_order && config.model.head == Head::masked_lm;
}

/// Reads the options over those of `config`, sets what follows from them, and checks the rules.
RunConfig complete_config(ConfigReader& reader, RunConfig config, ModelDefaults model) {
  // Some pairs of options exclude each other. If one of them is given, the default of the other
  // must not apply.
  const auto steps = std::exchange(config.training.steps, std::nullopt);
  const auto epochs = std::exchange(config.training.epochs, std::nullopt);
  const auto warmup_steps = std::exchange(config.schedule.warmup_steps, std::nullopt);
  const auto warmup_share = std::exchange(config.schedule.warmup_share, std::nullopt);
  reader.read_into(config);
  if (!config.training.steps && !config.training.epochs) {
    config.training.steps = steps;
    config.training.epochs = epochs;
  }
  if (!config.schedule.warmup_steps && !config.schedule.warmup_share) {
    config.schedule.warmup_steps = warmup_steps;
    config.schedule.warmup_share = warmup_share;
  }
  const bool plain = model == ModelDefaults::plain;
  const auto given = [&](const char* option) { return reader.errors().is_given(option); };
  if (!given("training.micro_batch_size"))
    config.training.micro_batch_size =
        largest_divisor(config.training.batch_size, config.training.micro_batch_size);
  config.vocab_size_from_tokenizer = plain && !given("model.vocab_size");
  if (config.vocab_size_from_tokenizer)
    config.model.vocab_size = config.tokenizer.train.vocab_size.value_or(most_pieces_by_default);
  if (has_task(config) && problems(config.task).empty()) {
    const TaskConfig task = resolve_task(config.task);
    config.model.head = head_of(*task.kind);
    config.model.multi_label = *task.multi_label;
    if (task.kind == TaskKind::features && !config.model.embed_dim)
      config.model.embed_dim = bag_width(task);
  } else if (config.model.embed_dim) {
    config.model.head = Head::none;
  }
  set_pretraining_head(config);
  if (!config.start.from || config.model.attention.semantics == Semantics::nystrom) {
    config.model.segment_means_seq_len = config.data.sequence_length;
  } else if (plain) {
    // The folder, which is not open, gives the length. This one fits the number of landmarks.
    config.model.segment_means_seq_len = config.model.attention.num_landmarks;
  }
  reader.errors().add_problems(validate(config));
  reader.errors().throw_if_any();
  return config;
}

}  // namespace

RunConfig pretraining_on_inputs(RunConfig config) {
  config.task = {};
  config.model.head = Head::masked_lm;
  config.model.multi_label = false;
  set_pretraining_head(config);
  return config;
}

ConfigText config_file(const std::string& path) {
  return {printable_path(path), read_text_file(path, max_yaml_bytes)};
}

RunConfig read_resolved_config(const std::string& path, Overrides overrides) {
  const ConfigText file = config_file(path);
  return parse_resolved_config(file.text, file.name, overrides);
}

RunConfig parse_resolved_config(std::string_view text, const std::string& name,
                                Overrides overrides) {
  ConfigReader reader(text, name, overrides);
  return complete_config(reader, {}, ModelDefaults::plain);
}

RunConfig parse_config(std::string_view text, const std::string& name, const ReadStart& read_start,
                       Overrides overrides) {
  ConfigReader reader(text, name, overrides);
  RunConfig given;  // decides the defaults: those of a folder, or of a task for a model's width
  reader.read_into(given);
  reader.errors().throw_if_any();
  RunConfig defaults;
  if (!given.start.from) set_model_defaults(defaults, given);
  if (given.start.from) {
    const StartDefaults folder = read_start(*given.start.from);
    defaults.model = folder.model;
    defaults.model.head = Head::masked_lm;
    defaults.model.labels = ModelConfig{}.labels;
    defaults.model.multi_label = false;
    defaults.data.sequence_length = folder.sequence_length;
  }
  if (!given.data.train.empty() && given.data.validation.empty())
    defaults.data.validation_fraction = 0.05;
  if (!given.task.train.empty() && given.task.validation.empty() && !has_folds(given.task))
    defaults.task.validation_fraction = 0.1;
  if (has_task(given)) set_finetuning_defaults(defaults, defaults.model.hidden_size);
  return complete_config(reader, defaults,
                         given.start.from ? ModelDefaults::of_folder : ModelDefaults::plain);
}

RunConfig override_config(RunConfig config, const std::string& name, Overrides overrides) {
  ConfigReader reader({}, name, overrides);
  return complete_config(reader, std::move(config), ModelDefaults::of_folder);
}

void override_model(ModelConfig& model, const std::string& name, Overrides overrides) {
  ModelConfig changed = model;
  ModelOverrides root{changed};
  ConfigReader reader({}, name, overrides);
  reader.read_into(root);
  reader.errors().add_problems(in_section("model", problems(changed)));
  reader.errors().throw_if_any();
  model = changed;
}

std::string to_yaml(const RunConfig& config) {
  using Path = std::vector<std::string>;
  std::string text;
  const auto line = [&](const Path& path, const std::string& value) {
    text += fmt::format("{:{}}{}:{}\n", "", 2 * (path.size() - 1), path.back(), value);
  };
  visit_options(
      config, [&](const Path& path) { line(path, ""); },
      [&](const Path& path, const std::string& value) { line(path, " " + value); });
  return text;
}

std::vector<std::pair<std::string, std::string>> option_values(const RunConfig& config) {
  using Path = std::vector<std::string>;
  std::vector<std::pair<std::string, std::string>> values;
  visit_options(
      config, [](const Path&) {},
      [&](const Path& path, std::string value) {
        values.emplace_back(fmt::format("{}", fmt::join(path, ".")), std::move(value));
      });
  return values;
}

}  // namespace nystrom
