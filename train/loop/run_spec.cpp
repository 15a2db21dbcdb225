#include "train/loop/run_spec.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <sstream>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/encoder.h"
#include "data/text/match_files.h"
#include "data/text/text.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "nn/layer_kinds.h"
#include "train/config/validation.h"
#include "train/config/yaml.h"
#include "train/state/hf_config.h"
#include "train/state/run_folder.h"
#include "train/state/transformers_class.h"

namespace nystrom {

namespace fs = std::filesystem;

void ResolutionErrors::add(const Problems& problems) {
  if (!file_) require_none(problems);
  for (const Problem& problem : problems) add_line(problem.message);
}

void ResolutionErrors::add(const InputError& error) {
  std::istringstream lines(error.what());
  for (std::string line; std::getline(lines, line);) lines_.push_back(line);
}

void ResolutionErrors::add_line(const std::string& message) {
  const std::string line = *file_ + ": " + message;
  const auto is_known = [&](const std::string& known) { return known == line || known == message; };
  if (std::ranges::none_of(lines_, is_known)) lines_.push_back(line);
}

void ResolutionErrors::throw_if_any() const {
  require_input(lines_.empty(), "{}", fmt::join(lines_, "\n"));
}

namespace {

/// Reads the run into `spec`, which has what was opened also where this throws.
void read_run(RunSpec& spec, const ConfigText& yaml, Overrides overrides) {
  Log printed(/*quiet=*/true);
  Log kept(/*quiet=*/false, [&](const std::string& line) {
    if (line.starts_with(warning_mark)) printed.warn(line.substr(warning_mark.size()));
    spec.notices.push_back(line);
  });
  const auto read_start = [&](const std::string& from) {
    spec.start = with_context("model.from",
                              [&] { return open_model(from, {}, kept, HeadUse::replaceable); });
    return StartDefaults{spec.start->config, trained_length(*spec.start)};
  };
  spec.options = parse_config(yaml.text, yaml.name, read_start, overrides);
  const std::size_t bytes = to_yaml(spec.options).size();
  require_input(
      bytes <= max_yaml_bytes,
      "{}: all options make a config.yaml of {} bytes, and at most {} are read; name files "
      "by patterns or folders, and leave labels to the data",
      yaml.name, bytes, max_yaml_bytes);
}

/// The task whose files the run reads; null for one that reads texts.
const TaskConfig* task_of(const RunSpec& spec) {
  if (spec.inputs) return &*spec.inputs;
  return has_task(spec.options) ? &spec.options.task : nullptr;
}

}  // namespace

RunSpec read_run(const ConfigText& yaml, Overrides overrides) {
  RunSpec spec;
  read_run(spec, yaml, overrides);
  return spec;
}

std::string training_option(const RunSpec& spec) {
  return task_of(spec) ? "task.train" : "data.train";
}

std::string validation_option(const RunSpec& spec) {
  const TaskConfig* task = task_of(spec);
  const bool named = !(task ? task->validation.empty() : spec.options.data.validation.empty());
  return !named ? training_option(spec) : task ? "task.validation" : "data.validation";
}

std::string tokenizer_option(const RunSpec& spec) {
  const TokenizerConfig& named = spec.options.tokenizer;
  return named.builtin ? "tokenizer.builtin"
         : named.path  ? "tokenizer.path"
         : spec.start  ? "model.from"
                       : training_option(spec);  // its texts train one
}

void require_pretraining_tokens(const Tokenizer& tokenizer, const RunConfig& config) {
  require_distinct_special_tokens(tokenizer);
  require_input((!config.masking.sentence_order && !config.data.cross_documents) ||
                    tokenizer.special().sep != no_id,
                "the tokenizer has no tokens around a text; leave masking.sentence_order and "
                "data.cross_documents false");
  require_input(!config.masking.whole_word || tokenizer.marks_words(),
                "the tokenizer does not say which tokens start a word; leave masking.whole_word "
                "false, or choose another tokenizer");
}

RunSpec with_tokenizer(RunSpec spec, std::shared_ptr<const Tokenizer> tokenizer) {
  ModelConfig& model = spec.options.model;
  if (spec.options.vocab_size_from_tokenizer) model.vocab_size = tokenizer->vocab_size();
  require_input(!spec.start || spec.start->config.vocab_size >= tokenizer->vocab_size(),
                "model.from has {} rows of word embeddings, fewer than the tokenizer's {} pieces; "
                "take its own tokenizer, or add rows by transformers' resize_token_embeddings",
                spec.start ? spec.start->config.vocab_size : 0, tokenizer->vocab_size());
  require_input(model.vocab_size >= tokenizer->vocab_size(),
                "model.vocab_size {} is below the tokenizer's {} pieces; raise it, or leave it out",
                model.vocab_size, tokenizer->vocab_size());
  if (!has_task(spec.options)) {
    require_masked_lm_tokens(*tokenizer);
    require_pretraining_tokens(*tokenizer, spec.options);
  }
  require_input(tokenizer->special().pad != no_id,
                "the tokenizer has no padding token; name one in its special_tokens_map.json, as "
                "in {{\"pad_token\": \"<pad>\"}}");
  const std::int64_t pieces = tokenizer->vocab_size(),
                     asked = spec.options.tokenizer.train.vocab_size.value_or(pieces);
  require_input(asked == pieces,
                "tokenizer.train.vocab_size is {}, and the tokenizer of the run has {} pieces; "
                "leave it out, or set it to null",
                asked, pieces);
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

/// Throws an InputError if the weights of model.from do not suit the model. Runs with checkpoints
/// do not read them again.
void check_first_weights(const RunSpec& spec, bool fresh_head) {
  if (spec.start && !spec.saved.has_checkpoints)
    with_context("model.from", [&] { check_start(spec.options.model, *spec.start, fresh_head); });
}

/// The folders in which a run writes. Of the cache, rows are of the run's input.
class OwnFolders {
 public:
  explicit OwnFolders(const RunConfig& config)
      : run_dir_(normal_place(config.run_dir)), cache_(normal_place(config.data.cache)) {}

  /// Throws an InputError for a file that the run writes, or a folder that holds its folders: what
  /// is read would change.
  void refuse(const fs::path& path) const {
    const fs::path place = normal_place(path);
    const fs::path in_cache = place.lexically_relative(cache_), entry = *in_cache.begin();
    const bool written =
        entry.string().starts_with("tokens-") || entry.string().starts_with("tokenizer-");
    const bool holds = fs::is_directory(place);
    for (const auto& [option, folder, inside] :
         {std::tuple("run_dir", run_dir_, is_within(place, run_dir_)),
          std::tuple("data.cache", cache_, written)})
      require_input(!inside && !(holds && is_within(folder, place)),
                    "{}: the run reads it, and writes in {} ({}); name the input more narrowly, or "
                    "change {}",
                    printable_path(path), printable_path(folder), option, option);
  }

 private:
  static bool is_within(const fs::path& inner, const fs::path& outer) {
    const fs::path inside = inner.lexically_relative(outer);
    return !inside.empty() && *inside.begin() != "..";
  }

  fs::path run_dir_, cache_;
};

/// Matches the patterns of one option of texts, and checks what match_inputs_of_run tells.
void match_each(const char* option, const std::vector<TextSource>& sources, const RunConfig& config,
                ResolutionErrors& errors) {
  const OwnFolders own(config);
  for (const std::string& pattern : patterns_of(sources))
    errors.note(option, [&] {
      const std::vector<fs::path> files = match_files(std::span(&pattern, 1));
      for (const fs::path& file : files) own.refuse(file);
      require_texts(files, text_form(config.data));
    });
}

/// The folder that a pattern names, or the files that it matches. Empty without any.
std::vector<fs::path> paths_of(const std::string& pattern) {
  if (fs::is_directory(pattern)) return {pattern};
  try {
    return match_files(std::span(&pattern, 1));
  } catch (const InputError&) {
    return {};  // who reads them says why
  }
}

/// Refuses patterns of a task's files that match none, and files of the run.
void match_each(const char* option, const std::vector<std::string>& patterns,
                const TaskConfig& task, const RunConfig& config, ResolutionErrors& errors) {
  const OwnFolders own(config);
  for (const std::string& pattern : patterns)
    errors.note(option, [&] {
      // A folder holds texts, or queries: who reads it says what is wrong with it.
      const bool folders = task.format == TaskFormat::folders ||
                           (task.kind != TaskKind::features && fs::is_directory(pattern));
      for (const fs::path& path : folders ? paths_of(pattern) : match_files(std::span(&pattern, 1)))
        own.refuse(path);
    });
}

void require_same_vocabulary(const Tokenizer& teacher, const Tokenizer& run) {
  constexpr const char* advice =
      "teacher and student need one vocabulary: name another teacher, "
      "or its folder as tokenizer.path";
  require_input(teacher.vocab_size() == run.vocab_size(),
                "its tokenizer has {} pieces, the run's {}; {}", teacher.vocab_size(),
                run.vocab_size(), advice);
  for (std::int32_t id = 0; id < run.vocab_size(); ++id)
    require_input(teacher.piece(id) == run.piece(id),
                  "id {} is '{}' in its tokenizer, '{}' in the "
                  "run's; {}",
                  id, printable(teacher.piece(id), 40), printable(run.piece(id), 40), advice);
}

void require_same_shape(const ModelConfig& teacher, const RunConfig& config) {
  const ModelConfig& student = config.model;
  require_input(
      config.distillation.attention_output == 0 ||
          (teacher.num_hidden_layers == student.num_hidden_layers &&
           teacher.hidden_size == student.hidden_size),
      "it has {} layers of width {}, the model {} of width {}; distillation.attention_output "
      "compares layer with layer: set it to 0, or name another teacher",
      teacher.num_hidden_layers, teacher.hidden_size, student.num_hidden_layers,
      student.hidden_size);
}

/// Throws unless the teacher takes all sequences that it gets.
void require_positions(const ModelConfig& teacher, const RunConfig& config) {
  const auto longest = teacher.longest_sequence();
  for (const Stage& stage : stages_of(config)) {
    if (!longest || stage.length <= *longest || !config.distillation.at_step(stage.begin + 1))
      continue;
    require_input(stage.begin > 0,
                  "it takes at most {} tokens, the sequences have {}; begin with shorter ones in "
                  "data.length_schedule, and end with the teacher before they grow, by "
                  "distillation.until_step",
                  *longest, stage.length);
    throw InputError(
        fmt::format("it takes at most {} tokens, the sequences have {} after {} steps; set "
                    "distillation.until_step "
                    "to {}",
                    *longest, stage.length, stage.begin, stage.begin));
  }
}

/// The folder of distillation.teacher. Throws an InputError unless it suits the run: a masked
/// language model with exact attention, the vocabulary of the run, the lengths of its sequences
/// and, with attention_output, the model's layers and width. The run has a teacher and a tokenizer.
ModelFolder open_teacher(const RunSpec& spec) {
  Log quiet(true);
  return with_context("distillation.teacher", [&] {
    ModelFolder folder = open_model(*spec.options.distillation.teacher, {}, quiet);
    const ModelConfig &teacher = folder.config, &student = spec.options.model;
    const auto tokenizer = open_masked_lm_tokenizer(folder);
    with_context(printable_path(folder.path), [&] {
      require_input(has_exact_attention(teacher),
                    "its attention is {}; a teacher has exact attention, softmax: name the folder "
                    "from which the model was converted",
                    describe_kinds(teacher));
      check_start(teacher, folder, /*fresh_head=*/false);  // its weights
      require_same_vocabulary(*tokenizer, *spec.tokenizer);
      require_input(
          teacher.vocab_size == student.vocab_size, "it predicts {} tokens, the model {}; {} {}",
          teacher.vocab_size, student.vocab_size,
          spec.start ? "by transformers' resize_token_embeddings give both"
                     : "set model.vocab_size to",
          spec.start ? std::max(teacher.vocab_size, student.vocab_size) : teacher.vocab_size);
      require_same_shape(teacher, spec.options);
      require_positions(teacher, spec.options);
    });
    return folder;
  });
}

/// Throws an InputError for a text of logging.fill_masks without a mask.
void require_masks(const RunSpec& spec) {
  const std::string usual = "[MASK]";  // which a trained tokenizer has, too
  const std::string own =
      spec.tokenizer ? spec.tokenizer->piece(spec.tokenizer->special().mask) : usual;
  for (const std::string& text : spec.options.logging.fill_masks)
    require_input(text.find(usual) != text.npos || text.find(own) != text.npos,
                  "the text '{}' has no {}; write it where a word is to be filled in",
                  printable(text, 40), own);
}

/// Opens what options name by themselves and the run has not opened yet, for the errors alone:
/// where a run's options break a rule, more is not known.
void open_named(const RunSpec& spec, ResolutionErrors& errors) {
  const RunConfig& config = spec.options;
  Log quiet(true);
  const auto open = [&](const char* option, const std::optional<std::string>& name, const auto& f) {
    if (name && !name->empty()) errors.note(option, [&] { f(*name); });
  };
  if (!spec.start)
    open("model.from", config.start.from,
         [&](const std::string& name) { open_model(name, {}, quiet, HeadUse::replaceable); });
  if (!spec.tokenizer)
    open("tokenizer.path", config.tokenizer.path,
         [](const std::string& name) { open_tokenizer(find_tokenizer(name)); });
  open("distillation.teacher", config.distillation.teacher,
       [&](const std::string& name) { open_model(name, {}, quiet); });
}

void resolve_pretraining(RunSpec& spec, ResolutionErrors& errors) {
  check_pretraining_run(spec, errors);
  match_inputs_of_run(spec, errors);
  if (!reads_features(spec.options))
    errors.note("data.cache", [&] { nearest_folder(spec.options.data.cache); });
  const bool fits = errors.note("", [&] { spec = with_named_tokenizer(spec); });
  if (fits && !has_task(spec.options))
    errors.note("logging.fill_masks", [&] { require_masks(spec); });
  errors.note("", [&] {  // messages about run_dir begin with it
    spec.saved = read_saved_run(spec.options.run_dir, spec.options.data.cache);
    if (fits) require_same_settings(spec.options, spec.saved);  // else they are incomplete
  });
  if (fits) errors.note("", [&] { check_first_weights(spec, spec.options.start.fresh_head); });
  if (!errors.empty()) return open_named(spec, errors);
  if (spec.options.distillation.teacher)
    errors.note("", [&] {
      spec.teacher = open_teacher(spec);
      for (const std::string& line : decoder_notices(*spec.teacher))
        spec.notices.push_back(line + " (distillation.teacher)");
    });
}

/// Reports a pooling that a task has no use for. That of model.from stays.
Problems pooling_problems(const RunSpec& spec) {
  const TaskKind kind = *resolve_task(spec.options.task).kind;
  const Pooling pooling = spec.options.model.pooling;
  const bool vectors = kind == TaskKind::embeddings;
  if ((kind != TaskKind::tokens && kind != TaskKind::questions && !vectors) ||
      pooling == (spec.start ? spec.start->config.pooling : ModelConfig{}.pooling))
    return {};
  return {{{"model.pooling", "task.kind"},
           fmt::format("model.pooling {} is of heads that read one vector of a text, which a task "
                       "of kind {} has not; {}",
                       enum_name(pooling), enum_name(kind),
                       vectors ? "set model.embedding.pooling" : "leave it out")}};
}

void resolve_finetuning(RunSpec& spec, ResolutionErrors& errors) {
  errors.add(validate_finetuning(spec.options));
  if (errors.empty()) errors.add(pooling_problems(spec));
  const bool sound = errors.empty();
  match_inputs_of_run(spec, errors);
  const bool fits = sound && errors.note("", [&] { spec = with_named_tokenizer(spec); });
  if (!sound) open_named(spec, errors);
  // The files of the task complete the settings and the head: prepare_task compares both.
  errors.note("", [&] {  // messages about run_dir begin with it
    spec.saved = read_saved_run(spec.options.run_dir, spec.options.data.cache);
    require_same_kind(spec.options, spec.saved);
  });
  const Head head = spec.options.model.head;
  const bool fresh_head = spec.options.start.fresh_head || head == Head::sequence_classification ||
                          head == Head::token_classification;
  if (fits) errors.note("", [&] { check_first_weights(spec, fresh_head); });
}

/// The canonical paths of files that patterns match, and of folders that they name.
std::set<fs::path> canonical_paths(const std::vector<std::string>& patterns) {
  std::set<fs::path> paths;
  const auto insert = [&](const fs::path& given) {
    std::error_code nameless;  // the file of a pipe
    const fs::path path = fs::canonical(given, nameless);
    paths.insert(nameless ? given : path);
  };
  for (const std::string& pattern : patterns)
    for (const fs::path& path : paths_of(pattern)) insert(path);
  return paths;
}

}  // namespace

RunSpec with_named_tokenizer(RunSpec spec) {
  const bool task = has_task(spec.options);
  if (task) spec.options.task = resolve_task(spec.options.task);
  const TaskConfig& resolved = spec.options.task;
  if ((spec.inputs ? *spec.inputs : resolved).kind == TaskKind::features) return spec;
  with_context(tokenizer_option(spec), [&] {
    const auto builtin = spec.options.tokenizer.builtin;
    const auto place = tokenizer_place(spec);
    if (!builtin && !place) return;
    spec = with_tokenizer(std::move(spec),
                          builtin ? make_builtin_tokenizer(*builtin) : open_tokenizer(*place));
    require_pieces_of_start(spec);
  });
  if (task && spec.tokenizer)  // throws if the length or the tokenizer does not fit the task
    const TaskEncoder checked(spec.options.task, {}, *spec.tokenizer,
                              spec.options.data.sequence_length);
  return spec;
}

void match_inputs_of_run(const RunSpec& spec, ResolutionErrors& errors) {
  const RunConfig& config = spec.options;
  if (const TaskConfig* task = task_of(spec)) {
    match_each("task.train", task->train, *task, config, errors);
    match_each("task.validation", task->validation, *task, config, errors);
    return;
  }
  match_each("data.train", config.data.train, config, errors);
  match_each("data.validation", config.data.validation, config, errors);
}

void check_pretraining_run(RunSpec& spec, ResolutionErrors& errors) {
  if (has_task(spec.options)) {
    const std::size_t before = errors.size();
    errors.add(validate_inputs(spec.options));
    if (errors.size() > before) return;
    spec.inputs = resolve_task(spec.options.task);
    spec.options = pretraining_on_inputs(std::move(spec.options));
  }
  errors.add(validate_pretraining(spec.options, /*of_files=*/!spec.inputs));
}

RunSpec read_run(const ConfigText& yaml, Overrides overrides, ResolutionErrors& errors) {
  RunSpec spec;
  try {
    read_run(spec, yaml, overrides);
  } catch (const InputError& error) {
    spec.options = understood_options(yaml, overrides);
    const RunConfig& config = spec.options;
    errors.add(error);
    if (config.run_dir.empty() || config.data.cache.empty()) errors.throw_if_any();  // no places
    match_inputs_of_run(spec, errors);
    open_named(spec, errors);
    errors.note("", [&] { check_run_place(config.run_dir, config.data.cache); });
  }
  return spec;
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
