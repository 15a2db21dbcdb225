#include "train/loop/run_spec.h"

#include <filesystem>
#include <set>
#include <span>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/encoder.h"
#include "data/tasks/feature_file.h"
#include "data/text/match_files.h"
#include "data/text/text.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "train/config/validation.h"
#include "train/loop/teacher.h"
#include "train/state/hf_config.h"

namespace nystrom {

namespace fs = std::filesystem;

void ResolutionErrors::add(const Problems& problems) {
  if (!file_) require_none(problems);
  for (const Problem& problem : problems) lines_.push_back(*file_ + ": " + problem.message);
}

void ResolutionErrors::throw_if_any() const {
  require_input(lines_.empty(), "{}", fmt::join(lines_, "\n"));
}

RunSpec read_run(const ConfigText& yaml, Overrides overrides) {
  RunSpec spec;
  const auto read_start = [&](const std::string& from) {
    spec.start = open_start_folder(from);
    return defaults_from(*spec.start);
  };
  spec.options = parse_config(yaml.text, yaml.name, read_start, overrides);
  return spec;
}

RunSpec with_tokenizer(RunSpec spec, std::shared_ptr<const Tokenizer> tokenizer) {
  ModelConfig& model = spec.options.model;
  if (spec.options.vocab_size_from_tokenizer) model.vocab_size = tokenizer->vocab_size();
  require_input(model.vocab_size >= tokenizer->vocab_size(),
                "model.vocab_size {} is below the tokenizer's {} pieces; raise it, or leave it out",
                model.vocab_size, tokenizer->vocab_size());
  if (!has_task(spec.options)) require_masked_lm_tokens(*tokenizer);
  require_input(tokenizer->special().pad != no_id,
                "the tokenizer has no padding token; name one in its special_tokens_map.json, as "
                "in {{\"pad_token\": \"<pad>\"}}");
  model.pad_token_id = tokenizer->special().pad;
  set_text_ends(model, tokenizer->special());
  spec.tokenizer = std::move(tokenizer);
  return spec;
}

std::optional<fs::path> tokenizer_place(const RunSpec& spec) {
  const TokenizerConfig& named = spec.options.tokenizer;
  if (named.builtin) return std::nullopt;
  if (named.path) return find_tokenizer(*named.path);
  return spec.start ? std::optional(spec.start->path) : std::nullopt;
}

namespace {

/// Throws an InputError if an id is another piece in the run's tokenizer than in that of
/// model.from: the weights belong to its pieces.
void require_pieces_of_start(const RunSpec& spec) {
  const TokenizerConfig& named = spec.options.tokenizer;
  if (!spec.start || !(named.builtin || named.path) || !has_tokenizer(spec.start->path)) return;
  const auto own = open_tokenizer(spec.start->path);
  const auto ids = std::min(own->vocab_size(), spec.tokenizer->vocab_size());
  for (std::int32_t id = 0; id < ids; ++id)
    require_input(own->piece(id) == spec.tokenizer->piece(id),
                  "id {} is '{}' in the tokenizer that tokenizer.{} names, and '{}' in that of "
                  "model.from, to whose pieces the weights belong; leave tokenizer.{} out",
                  id, printable(spec.tokenizer->piece(id), 40), named.builtin ? "builtin" : "path",
                  printable(own->piece(id), 40), named.builtin ? "builtin" : "path");
}

}  // namespace

RunSpec with_named_tokenizer(RunSpec spec) {
  const bool task = has_task(spec.options);
  if (task) spec.options.task = resolve_task(spec.options.task);
  const TaskConfig& resolved = spec.options.task;
  if ((spec.inputs ? *spec.inputs : resolved).kind == TaskKind::features) return spec;
  const auto builtin = spec.options.tokenizer.builtin;
  const auto place = tokenizer_place(spec);
  if (!builtin && !place) return spec;
  spec = with_tokenizer(std::move(spec),
                        builtin ? make_builtin_tokenizer(*builtin) : open_tokenizer(*place));
  require_pieces_of_start(spec);
  if (task)  // the constructor throws if the length or the tokenizer does not fit the task
    const TaskEncoder checked(spec.options.task, {}, *spec.tokenizer,
                              spec.options.data.sequence_length);
  return spec;
}

namespace {

/// Throws an InputError if the weights of model.from do not suit the model. Runs with checkpoints
/// do not read them again.
void check_first_weights(const RunSpec& spec, bool fresh_head) {
  if (spec.start && !spec.saved.has_checkpoints)
    check_start(spec.options.model, *spec.start, fresh_head);
}

/// Features have the width of their files unless model.embed_dim is given.
void take_width_of_features(RunConfig& config) {
  if (config.task.kind != TaskKind::features || config.model.embed_dim || config.start.from ||
      config.task.train.empty())
    return;
  config.model.embed_dim = FeatureFile(match_files(config.task.train).at(0)).width();
}

/// Throws an InputError for a text in a folder that the run itself writes: it would change.
void require_outside(const fs::path& file, const char* option, const fs::path& folder) {
  const fs::path inside =
      fs::weakly_canonical(file).lexically_relative(fs::weakly_canonical(folder));
  require_input(inside.empty() || *inside.begin() == "..",
                "{} lies in {}, which the run writes; name the texts more narrowly, or change {}",
                printable_path(file), option, option);
}

void match_each(const char* option, const std::vector<TextSource>& sources, const RunConfig& config,
                ResolutionErrors& errors) {
  for (const std::string& pattern : patterns_of(sources))
    errors.note(option, [&] {
      for (const fs::path& file : match_files(std::span(&pattern, 1))) {
        require_outside(file, "data.cache", config.data.cache);
        require_outside(file, "run_dir", config.run_dir);
      }
      match_texts(std::span(&pattern, 1), text_form(config.data));
    });
}

void resolve_pretraining(RunSpec& spec, ResolutionErrors& errors) {
  check_pretraining_run(spec, errors);
  const DataConfig& data = spec.options.data;
  if (!spec.inputs) {
    match_each("data.train", data.train, spec.options, errors);
    match_each("data.validation", data.validation, spec.options, errors);
  }
  const bool named = spec.options.tokenizer.path.has_value();
  const bool fits = errors.note(named ? "tokenizer.path" : "model.from",
                                [&] { spec = with_named_tokenizer(spec); });
  if (!fits) return;  // the settings are incomplete
  errors.note("run_dir", [&] {
    spec.saved = read_saved_run(spec.options.run_dir);
    require_same_settings(spec.options, spec.saved);
  });
  errors.note("model.from", [&] { check_first_weights(spec, spec.options.start.fresh_head); });
  if (!errors.empty() || !spec.options.distillation.teacher) return;
  errors.note("", [&] { spec.teacher = open_teacher(spec); });
}

void resolve_finetuning(RunSpec& spec, ResolutionErrors& errors) {
  if (!errors.note("task.train", [&] { take_width_of_features(spec.options); })) return;
  errors.add(validate_finetuning(spec.options));
  if (!errors.empty()) return;
  const bool fits = errors.note("", [&] { spec = with_named_tokenizer(spec); });
  // The files of the task complete the settings and the head: prepare_task compares both.
  errors.note("run_dir", [&] {
    spec.saved = read_saved_run(spec.options.run_dir);
    require_same_kind(spec.options, spec.saved);
  });
  const bool fresh_head =
      spec.options.start.fresh_head || has_labels(*resolve_task(spec.options.task).kind);
  if (fits) errors.note("model.from", [&] { check_first_weights(spec, fresh_head); });
}

}  // namespace

void check_pretraining_run(RunSpec& spec, ResolutionErrors& errors) {
  if (has_task(spec.options)) {
    const std::size_t before = errors.size();
    errors.add(validate_inputs(spec.options));
    errors.note("task.train", [&] { take_width_of_features(spec.options); });
    if (errors.size() > before) return;
    spec.inputs = resolve_task(spec.options.task);
    spec.options = pretraining_on_inputs(std::move(spec.options));
  }
  errors.add(validate_pretraining(spec.options, /*of_files=*/!spec.inputs));
}

RunSpec resolve(RunSpec given, RunKind kind, ResolutionErrors& errors) {
  if (kind == RunKind::pretraining)
    resolve_pretraining(given, errors);
  else
    resolve_finetuning(given, errors);
  return given;
}

RunSpec resolve(const ConfigText& yaml, Overrides overrides, RunKind kind) {
  ResolutionErrors thrown;
  return resolve(read_run(yaml, overrides), kind, thrown);
}

void require_same_run(const RunSpec& spec) {
  require_same_settings(spec.options, spec.saved);
  check_first_weights(spec, spec.options.start.fresh_head);
}

namespace {

/// The canonical paths of files that patterns match, and of folders that they name.
std::set<fs::path> canonical_paths(const std::vector<std::string>& patterns) {
  std::set<fs::path> paths;
  const auto insert = [&](const fs::path& given) {
    std::error_code nameless;  // the file of a pipe
    const fs::path path = fs::canonical(given, nameless);
    paths.insert(nameless ? given : path);
  };
  for (const std::string& pattern : patterns) {
    if (fs::is_directory(pattern)) {
      insert(pattern);
      continue;
    }
    try {
      for (const fs::path& file : match_files(std::span(&pattern, 1))) insert(file);
    } catch (const InputError&) {
      continue;  // no such file
    }
  }
  return paths;
}

}  // namespace

std::vector<std::string> shared_file_warnings(const RunConfig& config) {
  const bool task = has_task(config);
  const std::set<fs::path> train =
      canonical_paths(task ? config.task.train : patterns_of(config.data.train));
  std::vector<std::string> lines;
  for (const fs::path& path :
       canonical_paths(task ? config.task.validation : patterns_of(config.data.validation))) {
    if (!train.contains(path)) continue;
    lines.push_back(
        fmt::format("{} is matched by both {}: the model would be evaluated on its training data; "
                    "name different files",
                    printable_path(path),
                    task ? "task.train and task.validation" : "data.train and data.validation"));
  }
  return lines;
}

}  // namespace nystrom
