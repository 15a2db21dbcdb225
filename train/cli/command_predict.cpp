// nystrom predict: say what a model predicts: what stands at a mask, or what its task asks for.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/entities.h"
#include "data/tasks/task_report.h"
#include "train/checkpoint/model_folder.h"
#include "train/cli/commands.h"
#include "train/finetune/task_predict.h"
#include "train/pretrain/fill_mask.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  CommonOptions common;
  std::string model;
  std::vector<std::string> texts, choices;
  std::optional<std::string> pair, config;
  std::int64_t top_k = 5, batch = 16;
  bool as_text = false, json = false, skip_bad = false;
  Device device;
};

std::string shown(const std::string& text) { return printable(text, std::string::npos); }

/// Characters of a text that printable() made fit for a terminal.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// ---- In order, a window of examples at a time ---------------------------------------------------

/// What is printed for each of some examples, in their order.
using Predict = std::function<std::vector<std::string>(const std::vector<Example>&)>;

/// Predicts examples as they come, and prints in their order. What cannot be read or predicted ends
/// it, or is marked in its place.
class Stream {
 public:
  /// `window` examples are predicted at once.
  Stream(const PredictOptions& options, std::size_t window, Predict predict)
      : options_(options), window_(window), predict_(std::move(predict)) {}

  void add(Example example) {
    slots_.emplace_back();
    waiting_.push_back(std::move(example));
    if (slots_.size() >= window_) flush();
  }

  /// In the place of an example: why there is none. Throws it unless bad ones are to be skipped.
  void add_bad(const std::string& message) {
    if (!options_.skip_bad) {
      flush();
      throw InputError(message + "; --skip-bad marks such a line and goes on");
    }
    slots_.emplace_back(message);
    if (slots_.size() >= window_) flush();
  }

  /// Prints everything added.
  void flush() {
    const std::vector<Example> examples = std::exchange(waiting_, {});
    const std::vector<std::optional<std::string>> slots = std::exchange(slots_, {});
    const std::vector<std::string> outputs = all(examples);
    std::size_t next = 0;
    for (const auto& bad : slots) fmt::print("{}\n", bad ? marked(*bad) : outputs[next++]);
    total_ += slots.size();
  }

  std::size_t total() const { return total_; }
  std::size_t bad() const { return bad_; }

 private:
  /// One bad example must not take the others with it.
  std::vector<std::string> all(const std::vector<Example>& examples) {
    if (examples.empty()) return {};
    if (!options_.skip_bad) return predict_(examples);
    try {
      return predict_(examples);
    } catch (const InputError&) {
      std::vector<std::string> outputs;
      for (const Example& example : examples) {
        try {
          outputs.push_back(predict_({example}).front());
        } catch (const InputError& error) {
          outputs.push_back(marked(error.what()));
        }
      }
      return outputs;
    }
  }

  std::string marked(const std::string& message) {
    ++bad_;
    return options_.json ? nlohmann::json{{"error", message}}.dump()
                         : "not predicted: " + shown(message);
  }

  const PredictOptions& options_;
  std::size_t window_;
  Predict predict_;
  std::vector<Example> waiting_;  // to predict
  std::vector<std::optional<std::string>>
      slots_;  // in the order of the input: nothing for an example, a message for a bad one
  std::size_t total_ = 0, bad_ = 0;
};

void add_file(Stream& stream, const TaskConfig& task, const std::string& file) {
  const auto reader = open_examples(task, {file}, Labelled::optional);
  while (true) {
    std::string bad;
    try {
      std::optional<Example> example = reader->next();
      if (!example) return;
      stream.add(std::move(*example));
    } catch (const BadRow& error) {
      bad = error.what();
    }
    if (!bad.empty()) stream.add_bad(bad);
  }
}

bool is_file(const PredictOptions& options, const std::string& text) {
  std::error_code error;
  return !options.as_text && fs::is_regular_file(text, error);
}

/// Whether an argument looks like the name of a file of data, compressed or not.
bool ends_like_data(const std::string& word) {
  fs::path name = word;
  if (name.extension() == ".gz" || name.extension() == ".zst") name.replace_extension();
  const std::string endings[] = {".txt",   ".tsv", ".csv",  ".json",
                                 ".jsonl", ".h5",  ".hdf5", ".conll"};
  return std::find(std::begin(endings), std::end(endings), name.extension().string()) !=
         std::end(endings);
}

/// The arguments as they were given. InputError, before anything is predicted, for one that is
/// neither a file nor meant as a text.
std::vector<std::string> checked_texts(const PredictOptions& options) {
  std::vector<std::string> texts;
  for (const std::string& word : options.texts) {
    const std::string text = unescape_brackets(word);
    std::error_code ignored;
    require_input(!text.empty(), "TEXT is empty; give a text, or the name of a file");
    require_input(
        options.as_text || !fs::is_directory(text, ignored),
        "{}: is a folder; give a text, or the name of a file; --as-text takes it for a text",
        printable_path(text));
    require_input(options.as_text || is_file(options, text) || !ends_like_data(text),
                  "{}: no such file; --as-text takes it for a text", printable_path(text));
    texts.push_back(text);
  }
  return texts;
}

void finish(Stream& stream, const PredictOptions& options, Log& log) {
  stream.flush();
  if (options.skip_bad && stream.bad() > 0)
    log.warn(fmt::format("{} of {} were not predicted", stream.bad(), stream.total()));
}

/// For what takes neither --pair nor --choice; `why` says what it is.
void refuse_parts(const PredictOptions& options, const std::string& why) {
  require_input(!options.pair && options.choices.empty(),
                "{} goes with a text on the command line, for a task; {}",
                options.pair ? "--pair" : "--choice", why);
}

/// Where an example stands, for messages: of a file, or of the command line.
std::string place_of(const Example& example) {
  return example.file ? example.place() : fmt::format("'{}'", printable(example.text, 60));
}

// ---- Masks --------------------------------------------------------------------------------------

std::string rendered(const std::string& text, const std::vector<std::vector<MaskFill>>& masks) {
  std::string result = shown(text);
  for (std::size_t mask = 0; mask < masks.size(); ++mask) {
    if (masks.size() > 1) result += fmt::format("\nmask {} of {}", mask + 1, masks.size());
    std::size_t widest = 0;
    for (const MaskFill& fill : masks[mask])
      widest = std::max(widest, width_of(shown(fill.token_str)));
    for (const MaskFill& fill : masks[mask]) {
      const std::string token = shown(fill.token_str);
      result += fmt::format("\n  {:.4f}  {}{:{}}  {}", fill.score, token, "",
                            widest - width_of(token), shown(fill.sequence));
    }
  }
  return result;
}

void fill(const PredictOptions& options, const ModelFolder& folder, Log& log) {
  refuse_parts(options, "this is a masked language model");
  const auto tokenizer = open_masked_lm_tokenizer(folder);
  require_input(options.top_k <= folder.config.vocab_size,
                "--top-k {}: the model knows only {} tokens", options.top_k,
                folder.config.vocab_size);
  const auto model =
      load_model(folder.path, folder.config, DType::f32, StoreMode::inference, options.device);
  Stream stream(options, 1, [&](const std::vector<Example>& examples) {
    std::vector<std::string> outputs;
    for (const Example& example : examples) {
      const auto masks = with_context(place_of(example), [&] {
        return fill_masks(*model, *tokenizer, example.text, options.top_k);
      });
      outputs.push_back(options.json ? fill_mask_json(masks) : rendered(example.text, masks));
    }
    return outputs;
  });
  TaskConfig lines;
  lines.kind = TaskKind::classification;
  lines.format = TaskFormat::lines;
  lines = resolve_task(lines);
  for (const std::string& text : options.texts) {
    if (is_file(options, text)) {
      add_file(stream, lines, text);
      continue;
    }
    require_input(options.as_text || text.find_first_of(" [<") != text.npos,
                  "'{}': is no file, and as a text it has no [MASK]", printable(text, 60));
    Example example;
    example.text = text;
    stream.add(std::move(example));
  }
  finish(stream, options, log);
}

// ---- Tasks --------------------------------------------------------------------------------------

std::string rendered(const Example& example, const Prediction& prediction) {
  std::string text = example.pixels.empty() ? example.text : example.place();
  if (text.empty()) text = fmt::format("{}", fmt::join(example.words, " "));
  std::string result =
      example.id.empty() || !example.pixels.empty() ? shown(text) : shown(example.id + ": " + text);
  if (prediction.value) return result + fmt::format("\n  {:.4f}", *prediction.value);
  for (const Guess& guess : prediction.guesses) {
    result += fmt::format("\n  {:.4f}  {}", guess.score,
                          guess.label.empty() ? "(no answer)" : shown(guess.label));
    if (!guess.word.empty()) result += "  " + shown(guess.word);
    if (guess.place) result += fmt::format("  [{}, {})", guess.place->start, guess.place->end);
  }
  return result;
}

/// The example that words of the command line make. `takes_pair`: it may have a second text.
Example example_of(const PredictOptions& options, const TaskConfig& task, bool takes_pair,
                   const std::string& text) {
  Example example;
  example.text = text;
  example.pair = options.pair;
  example.choices = options.choices;
  if (task.kind == TaskKind::tokens) {
    for (const TextRange& word : split_words(text)) {
      example.words.push_back(text.substr(static_cast<std::size_t>(word.begin),
                                          static_cast<std::size_t>(word.end - word.begin)));
    }
  }
  const bool wants_pair =
      task.kind == TaskKind::questions || (task.kind != TaskKind::choice && task.columns.pair);
  require_input(!wants_pair || options.pair, "'{}': {}", printable(text, 60),
                task.kind == TaskKind::questions
                    ? "a question needs the text that answers it; give --pair TEXT"
                    : "the task has pairs of texts; give the second by --pair TEXT");
  require_input(!options.pair || takes_pair,
                "'{}': the task has single texts (task.columns.pair is null); leave --pair out",
                printable(text, 60));
  require_input(task.kind == TaskKind::choice || options.choices.empty(),
                "'{}': a task of kind {} has no choices; leave --choice out", printable(text, 60),
                enum_name(*task.kind));
  require_input(task.kind != TaskKind::choice || options.choices.size() >= 2,
                "'{}': there must be at least two choices; give each by --choice TEXT",
                printable(text, 60));
  return example;
}

/// The task with the format of a file that is predicted: by its ending, else one text a line.
TaskConfig task_of_file(const PredictOptions& options, TaskConfig task, const std::string& file) {
  for (const std::string& each : options.common.overrides)
    if (each.starts_with("task.format=")) return task;
  if (task.format == TaskFormat::cifar10 || task.format == TaskFormat::pathfinder)
    return task;  // which hold no lines of text
  const std::string ending = fs::path(file).extension().string();
  const bool told = ending == ".tsv" || ending == ".csv" || ending == ".jsonl" ||
                    ending == ".json" || ending == ".conll";
  task.format = told ? std::nullopt : std::optional(TaskFormat::lines);
  return task;
}

/// What was cut in any of several calls, told as evaluation and training tell it.
class CutExamples {
 public:
  explicit CutExamples(const TaskModel& task) : settings_(task.settings) {}

  void add(const EncodingCounts& counts) {
    if (total_.truncated.count == 0) total_.truncated.first = counts.truncated.first;
    total_.truncated.count += counts.truncated.count;
    total_.examples += counts.examples;
  }
  void warn(Log& log) const {
    const std::string cut =
        describe_cut(*settings_.task.kind, total_, settings_.data.sequence_length);
    if (!cut.empty())
      log.warn(fmt::format("{} examples: {}; the rest was not read", total_.examples, cut));
  }

 private:
  const RunConfig& settings_;
  EncodingCounts total_;
};

void predict_files_of_features(const PredictOptions& options, const TaskModel& task, Log& log) {
  refuse_parts(options, "this task reads files of features");
  require_input(!options.as_text, "--as-text: this task reads files of features");
  CutExamples cut(task);
  for (const std::string& file : options.texts) {
    const Predictions predictions = predict_features(task, {file}, options.batch, options.top_k);
    cut.add(predictions.counts);
    for (std::size_t i = 0; i < predictions.all.size(); ++i) {
      Example example;
      example.text = fmt::format("sample {}", i);
      fmt::print("{}\n", options.json ? prediction_json(task, predictions.all[i])
                                      : rendered(example, predictions.all[i]));
    }
  }
  cut.warn(log);
}

void do_task(const PredictOptions& options, const ModelFolder& folder,
             const std::vector<std::string>& overrides, Log& log) {
  const TaskModel task = open_task_model(folder, settings_of(folder, options.config, overrides),
                                         DType::f32, options.device);
  if (task.settings.task.kind == TaskKind::features)
    return predict_files_of_features(options, task, log);
  const TaskKind kind = *task.settings.task.kind;
  const bool told =
      options.config || fs::exists(folder.path / "config.yaml");  // whether the task has pairs
  const bool may_be_pairs =
      (kind == TaskKind::classification || kind == TaskKind::regression) && !told;
  const bool takes_pair = kind == TaskKind::questions || kind == TaskKind::choice ||
                          task.settings.task.columns.pair || may_be_pairs;
  const auto window = static_cast<std::size_t>(64 * options.batch);  // lengths are sorted within it
  CutExamples cut(task);
  Stream stream(options, window, [&](const std::vector<Example>& examples) {
    const Predictions predictions = predict_examples(task, examples, options.batch, options.top_k);
    cut.add(predictions.counts);
    std::vector<std::string> outputs;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      outputs.push_back(options.json ? prediction_json(task, predictions.all[i])
                                     : rendered(examples[i], predictions.all[i]));
    }
    return outputs;
  });
  for (const std::string& text : options.texts) {
    if (is_file(options, text)) {
      refuse_parts(options, fmt::format("'{}' is a file", printable(text, 60)));
      add_file(stream, task_of_file(options, task.settings.task, text), text);
    } else {
      stream.add(example_of(options, task.settings.task, takes_pair, text));
    }
  }
  finish(stream, options, log);
  cut.warn(log);
}

void run(PredictOptions options) {
  options.device = options.common.apply();
  options.texts = checked_texts(options);
  Log log(options.common.quiet);
  const SplitOverrides overrides(options.common.overrides, {"task", "data"});
  const ModelFolder folder = open_model_folder(options.model, overrides.model, log);
  if (folder.config.head == Head::masked_lm) {
    require_input(overrides.run.empty(),
                  "--set {}: a masked language model has no task; only options of model apply",
                  printable(overrides.run.empty() ? "" : overrides.run[0], 80));
    require_input(!options.config, "--config: a masked language model has no task; leave it out");
    fill(options, folder, log);
  } else {
    do_task(options, folder, overrides.run, log);
  }
}

}  // namespace

Command add_predict_command(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  auto* command = app.add_subcommand("predict", "Predict with a model: fill masks, or do its task");
  command->footer(
      "The fields are those of Hugging Face's pipelines. An argument that names a file is read as "
      "its ending says, else line by line; one\n"
      "that ends as such files do (.txt, .tsv, .csv, .json, .jsonl, .h5, .hdf5, .conll, also .gz, "
      ".zst) must be there; --as-text takes\n"
      "all for texts. The results come in the order of the lines, whatever their number.\n\n"
      "Examples:\n  nystrom predict runs/small \"The ship sailed on the [MASK].\"\n  nystrom "
      "predict runs/small texts.txt --top-k 3 "
      "--json\n"
      "  nystrom predict runs/sst2 \"A gripping film.\" reviews.tsv --json --skip-bad\n"
      "  nystrom predict runs/squad \"Who built it?\" --pair \"The bridge was built by Brunel.\"");
  command->add_option("MODEL", options->model, "Hugging Face folder, run directory or checkpoint")
      ->required();
  command
      ->add_option("TEXT", options->texts,
                   "texts (for a masked language model with [MASK] in them), or files")
      ->required();
  command
      ->add_option(
          "--pair", options->pair,
          "the second text of a pair; the text that answers a question; how each choice begins")
      ->allow_extra_args(false);
  command
      ->add_option("--choice", options->choices, "a choice; several are given by several --choice")
      ->allow_extra_args(false);
  command
      ->add_option("--top-k", options->top_k,
                   "predictions for each mask; most labels, answers or choices shown")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--config", options->config,
                      "YAML file whose task section describes the files; default: the model's own");
  command->add_option("--batch", options->batch, "texts computed at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_flag("--as-text", options->as_text,
                    "take each TEXT for a text, even one that names a file");
  command->add_flag("--skip-bad", options->skip_bad,
                    "mark a line that cannot be predicted, and go on");
  command->add_flag("--json", options->json, "print one JSON line a text");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
