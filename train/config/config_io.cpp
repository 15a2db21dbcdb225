#include "train/config/config_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <ranges>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "data/tasks/bags.h"
#include "train/config/config_reader.h"
#include "train/config/json_fields.h"
#include "train/config/validation.h"

namespace nystrom {
namespace {

/// Calls `visit(path, member)` for every option and section, in order. Skips the sections that the
/// run does not use: `pretraining`, `masking` and `distillation` if there is a task, else `task`.
template <class F>
void visit_used_options(const RunConfig& config, const F& visit) {
  const bool task = has_task(config);
  RunConfig copy = config;  // field lists take a mutable struct
  visit_options(
      copy, [&](const std::string& section, const char* name, auto& member, const auto&...) {
        const std::string path = path_in(section, name), top = path.substr(0, path.find('.'));
        const bool of_text = top == "pretraining" || top == "masking" || top == "distillation";
        if (task ? !of_text : top != "task") visit(path, member);
      });
}

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
  constexpr std::int64_t widest = std::int64_t{1} << 24;  // more is refused
  model.intermediate_size = 4 * std::min(model.hidden_size, widest);
  constexpr std::int64_t head_width = 64;
  model.num_attention_heads =
      model.hidden_size > widest
          ? 1
          : largest_divisor(model.hidden_size, (model.hidden_size + head_width / 2) / head_width);
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
/// `knows_model` says that config.model is a folder's; else it has plain defaults.
RunConfig complete_config(ConfigReader& reader, RunConfig config, bool knows_model) {
  // Some pairs of options exclude each other. If one of them is given, the default of the other
  // must not apply.
  const auto steps = std::exchange(config.training.steps, std::nullopt);
  const auto epochs = std::exchange(config.training.epochs, std::nullopt);
  const auto warmup_steps = std::exchange(config.schedule.warmup_steps, std::nullopt);
  const auto warmup_share = std::exchange(config.schedule.warmup_share, std::nullopt);
  reader.read_into(config);
  const auto given = [&](const char* option) { return reader.is_given(option); };
  // A null that is given says that the default shall not apply.
  const auto complete = [&](const char* first, auto& one, const auto& usual, const char* second,
                            auto& other, const auto& other_usual) {
    if (one || other) return;
    if (!given(first)) one = usual;
    if (!given(second)) other = other_usual;
  };
  complete("schedule.warmup_steps", config.schedule.warmup_steps, warmup_steps,
           "schedule.warmup_share", config.schedule.warmup_share, warmup_share);
  complete("training.steps", config.training.steps, steps, "training.epochs",
           config.training.epochs, epochs);
  if (!config.training.steps && !config.training.epochs) {
    Problems missing;
    add_problem(missing, {"training.steps", "training.epochs"},
                "training.steps and training.epochs are both null; give one of them");
    reader.add_problems(missing);
    config.training.steps = steps;
    config.training.epochs = epochs;
  }
  if (!given("training.micro_batch_size"))
    config.training.micro_batch_size =
        largest_divisor(config.training.batch_size, config.training.micro_batch_size);
  config.vocab_size_from_tokenizer = !knows_model && !given("model.vocab_size");
  if (config.vocab_size_from_tokenizer)
    config.model.vocab_size = config.tokenizer.train.vocab_size.value_or(most_pieces_by_default);
  const bool sound = problems(config.task).empty();
  // Where no file is asked for the width, as of a task with problems or before Python's arguments
  // name the files, the other rules hold for any.
  const bool any_width = config.task.kind == TaskKind::features && !config.model.embed_dim &&
                         (!sound || config.task.train.empty());
  if (any_width) config.model.embed_dim = 1;
  if (has_task(config) && sound) {
    const TaskConfig task = resolve_task(config.task);
    config.model.head = head_of(*task.kind);
    config.model.multi_label = *task.multi_label;
    if (task.kind == TaskKind::features && !config.model.embed_dim)
      config.model.embed_dim = with_context("task.train", [&] { return feature_width(task); });
  } else if (config.model.embed_dim) {
    config.model.head = Head::none;
  }
  set_pretraining_head(config);
  if (!config.start.from || config.model.attention.semantics == Semantics::nystrom) {
    config.model.segment_means_seq_len = config.data.sequence_length;
  } else if (!knows_model) {
    // The folder, which is not open, gives the length. This one fits the number of landmarks.
    config.model.segment_means_seq_len = config.model.attention.num_landmarks;
  }
  reader.add_problems(validate(config));
  reader.throw_if_any();
  if (any_width) config.model.embed_dim.reset();
  return config;
}

}  // namespace

RunConfig pretraining_on_inputs(RunConfig config) {
  config.model.head =
      config.task.kind == TaskKind::features ? Head::masked_features : Head::masked_lm;
  config.task = {};
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
  return complete_config(reader, {}, /*knows_model=*/false);
}

RunConfig parse_config(std::string_view text, const std::string& name, const ReadStart& read_start,
                       Overrides overrides) {
  ConfigReader reader(text, name, overrides);
  RunConfig given;  // decides the defaults: those of a folder, or of a task for a model's width
  reader.read_into(given);
  reader.throw_if_any();
  RunConfig defaults;
  if (!given.start.from) set_model_defaults(defaults, given);
  if (given.start.from && !given.start.from->empty()) {  // else validate() reports it
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
  return complete_config(reader, defaults, given.start.from.has_value());
}

RunConfig read_config_over(RunConfig config, const std::string& path, Overrides overrides) {
  const ConfigText file = config_file(path);
  ConfigReader reader(file.text, file.name, overrides);
  return complete_config(reader, std::move(config), /*knows_model=*/true);
}

RunConfig override_config(RunConfig config, const std::string& name, Overrides overrides) {
  ConfigReader reader({}, name, overrides);
  return complete_config(reader, std::move(config), /*knows_model=*/true);
}

std::set<std::string> options_in(Overrides overrides, const ConfigText& text) {
  ConfigReader reader(text.text, text.name, overrides);
  RunConfig given;
  reader.read_into(given);
  return reader.given();
}

RunConfig understood_options(const ConfigText& text, Overrides overrides) {
  RunConfig given;
  ConfigReader(text.text, text.name, overrides).read_into(given);
  return given;
}

void override_model(ModelConfig& model, const std::string& name, Overrides overrides) {
  ModelConfig changed = model;
  ConfigReader reader({}, name, overrides);
  reader.read_into(changed);
  reader.add_problems(in_section("model", problems(changed)));
  reader.throw_if_any();
  model = changed;
}

std::string to_yaml(const RunConfig& config) {
  std::string text;
  visit_used_options(config, [&]<class T>(const std::string& path, const T& member) {
    const auto depth = std::ranges::count(path, '.');
    text += fmt::format("{:{}}{}:", "", 2 * depth, path.substr(path.rfind('.') + 1));
    if constexpr (!Section<T>) text += " " + yaml_text(json_fields::Writer::value_of(member));
    text += "\n";
  });
  return text;
}

std::vector<std::pair<std::string, std::string>> option_values(const RunConfig& config) {
  std::vector<std::pair<std::string, std::string>> values;
  visit_used_options(config, [&]<class T>(const std::string& path, const T& member) {
    if constexpr (!Section<T>)
      values.emplace_back(path, yaml_text(json_fields::Writer::value_of(member)));
  });
  return values;
}

std::vector<std::string> set_options(const RunConfig& config) {
  RunConfig copy = config, defaults;  // field lists take a mutable struct
  std::vector<std::any> expected;
  const auto keep = [&]<class T>(const auto&, const char*, const T& member, const auto&...) {
    if constexpr (!Section<T>) expected.emplace_back(member);
  };
  visit_options(defaults, keep);
  std::vector<std::string> paths;
  std::size_t i = 0;
  const auto compare = [&]<class T>(const auto& section, const char* name, const T& member,
                                    const auto&...) {
    if constexpr (!Section<T>) {
      bool empty = false;
      if constexpr (std::ranges::range<T> && !std::is_same_v<T, std::string>)
        empty = std::ranges::empty(member);
      const bool same = member == std::any_cast<const T&>(expected[i++]);
      if (!empty && !same) paths.push_back(path_in(section, name));
    }
  };
  visit_options(copy, compare);
  return paths;
}

}  // namespace nystrom
