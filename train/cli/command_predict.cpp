// nystrom predict: print a model's predictions: tokens for masks, or the results of its task.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tasks/answers.h"
#include "data/tasks/task_statistics.h"
#include "train/cli/commands.h"
#include "train/cli/text_arguments.h"
#include "train/config/config_io.h"
#include "train/objectives/fill_mask.h"
#include "train/objectives/task_predict.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  CommonOptions common;
  std::string model;
  TextArguments arguments;
  std::vector<std::string> choices;
  std::optional<std::string> pair, config, attention;
  DType dtype = DType::f32;
  std::optional<std::int64_t> top_k;
  std::int64_t batch = 16;
  bool skip_bad = false;
};

/// Throws an InputError if --pair or --choice is given. `why` is the reason in the message.
void refuse_parts(const PredictOptions& options, const std::string& why) {
  require_input(!options.pair && options.choices.empty(),
                "{} goes with a text on the command line, for a task; {}",
                options.pair ? "--pair" : "--choice", why);
}

/// The place of an example for messages: a place in a file, or its text on the command line.
std::string place_of(const Example& example) {
  return example.file ? example.place() : fmt::format("'{}'", printable(example.text, 60));
}

/// The key of an example's name in a line of --json: of documents, and where task.columns.id names
/// one; else null.
const char* name_key(const Example& example) {
  return example.whole_file ? "document" : example.named ? "id" : nullptr;
}

// ---- The stream of predictions ------------------------------------------------------------------

/// Predicts examples in windows and prints the results in input order. An example that cannot be
/// read or predicted throws an InputError; with --skip-bad it is marked in the output instead.
class PredictionStream {
 public:
  /// Returns the output for each example, in order.
  using Predict = std::function<std::vector<std::string>(const std::vector<Example>&)>;

  PredictionStream(const PredictOptions& options, Predict predict)
      : options_(options), predict_(std::move(predict)) {}

  /// Adds an example.
  void add(Example example) {
    slots_.emplace_back();
    waiting_.push_back(std::move(example));
    if (slots_.size() >= window_) flush();
  }

  /// Adds the examples of a file, or of a folder of documents (read_examples).
  void add_file(const TaskConfig& task, const std::string& file) {
    std::ranges::copy(
        read_examples(
            task, {file}, Labelled::optional, [&](Example&& example) { add(std::move(example)); },
            [&](const BadRow& error) { add_bad(error.what()); }),
        std::back_inserter(notes_));
  }

  /// Predicts and prints everything added so far, and warns of bad examples.
  void finish(Log& log) {
    flush();
    for (const std::string& note : notes_) log.warn(note);
    if (bad_ > 0) log.warn(fmt::format("{} of {} were not predicted", bad_, total_));
  }

 private:
  /// Adds an error message in the place of an example. Throws it without --skip-bad.
  void add_bad(const std::string& message) {
    if (!options_.skip_bad) {
      flush();
      throw InputError(message + "; --skip-bad marks such a line and goes on");
    }
    slots_.emplace_back(message);
    if (slots_.size() >= window_) flush();
  }

  void flush() {
    const std::vector<Example> examples = std::exchange(waiting_, {});
    const std::vector<std::optional<std::string>> slots = std::exchange(slots_, {});
    const std::vector<std::string> outputs = outputs_of(examples);
    std::size_t next = 0;
    for (const auto& bad : slots) fmt::print("{}\n", bad ? marked(*bad) : outputs[next++]);
    total_ += slots.size();
  }

  /// The outputs of all examples. A bad one does not affect the others: if the whole window fails,
  /// those that can be predicted alone are predicted together. Without --skip-bad the outputs
  /// before the bad one are printed, and its error is thrown.
  std::vector<std::string> outputs_of(const std::vector<Example>& examples) {
    const auto predict = [&](const std::vector<Example>& sound) {
      return sound.empty() ? std::vector<std::string>() : predict_(sound);
    };
    try {
      return predict(examples);
    } catch (const InputError&) {
      std::vector<Example> sound;
      std::vector<std::optional<std::string>> errors;
      for (const Example& example : examples) {
        try {
          predict_({example});
          sound.push_back(example);
          errors.emplace_back();
        } catch (const InputError& error) {
          if (!options_.skip_bad) {
            for (const std::string& output : predict(sound)) fmt::print("{}\n", output);
            throw;
          }
          errors.emplace_back(error.what());
        }
      }
      std::vector<std::string> outputs = predict(sound);
      for (std::size_t i = 0; i < errors.size(); ++i)
        if (errors[i])
          outputs.insert(outputs.begin() + static_cast<std::ptrdiff_t>(i),
                         marked(*errors[i], examples[i]));
      return outputs;
    }
  }

  /// The output in the place of an example, of which nothing is known where it cannot be read.
  std::string marked(const std::string& message, const Example& example = {}) {
    ++bad_;
    if (!options_.common.json) return "not predicted: " + shown(message);
    nlohmann::ordered_json line;
    if (const char* const key = name_key(example)) line[key] = example.id;
    line["error"] = message;
    return line.dump();
  }

  const PredictOptions& options_;
  // The examples that are sorted by length to share batches.
  const std::size_t window_ = static_cast<std::size_t>(64 * options_.batch);
  Predict predict_;
  std::vector<Example> waiting_;  // to predict
  // In input order: nothing for an example, a message for a bad one.
  std::vector<std::optional<std::string>> slots_;
  std::vector<std::string> notes_;  // of the files
  std::size_t total_ = 0, bad_ = 0;
};

// ---- Masks --------------------------------------------------------------------------------------

std::string rendered(const std::string& text, const MaskFills& masks) {
  std::string result = shown(text);
  for (std::size_t mask = 0; mask < masks.size(); ++mask) {
    if (masks.size() > 1) result += fmt::format("\nmask {} of {}", mask + 1, masks.size());
    std::size_t widest = 0;
    for (const MaskFill& fill : masks[mask])
      widest = std::max(widest, count_characters(shown(fill.token_str)));
    for (const MaskFill& fill : masks[mask]) {
      const std::string token = shown(fill.token_str);
      result += fmt::format("\n  {:.4f}  {}{:{}}  {}", fill.score, token, "",
                            widest - count_characters(token), shown(fill.sequence));
    }
  }
  return result;
}

void fill(const PredictOptions& options, const ModelFolder& folder,
          const std::vector<std::string>& overrides, Device device, Log& log) {
  refuse_parts(options, "this is a masked language model");
  require_input(!options.arguments.document,
                "--document is for tasks; this is a masked language model");
  const auto tokenizer = open_masked_lm_tokenizer(folder);
  const std::int64_t top_k = options.top_k.value_or(default_answers);
  require_input(top_k <= folder.config.vocab_size, "--top-k {}: the model knows only {} tokens",
                top_k, folder.config.vocab_size);
  const auto model = load_model(folder, options.dtype, StoreMode::inference, device);
  PredictionStream stream(options, [&](const std::vector<Example>& examples) {
    std::vector<MaskedText> texts;
    for (const Example& example : examples)
      texts.push_back(with_context(
          place_of(example), [&] { return masked_text(folder.config, *tokenizer, example.text); }));
    const auto fills = fill_masks(*model, *tokenizer, texts, top_k, options.batch);
    std::vector<std::string> outputs;
    for (std::size_t i = 0; i < fills.size(); ++i)
      outputs.push_back(options.common.json ? fill_mask_json(fills[i])
                                            : rendered(examples[i].text, fills[i]));
    return outputs;
  });
  TaskConfig texts;
  texts.kind = TaskKind::classification;
  texts.fills_masks = true;
  texts.columns.text = settings_of(folder, std::nullopt, overrides).data.text_column;
  texts = resolve_task(texts);
  for (const std::string& text : options.arguments.texts) {
    if (is_path(options.arguments, text)) {
      refuse_folder(text, "a masked language model fills masks line by line");
      stream.add_file(task_of_file(options.arguments, {}, texts, text), text);
      continue;
    }
    require_input(options.arguments.as_text || text.find_first_of(" [<") != text.npos,
                  "'{}': is no file, and as a text it has no [MASK]", printable(text, 60));
    Example example;
    example.text = text;
    stream.add(std::move(example));
  }
  stream.finish(log);
}

// ---- Tasks --------------------------------------------------------------------------------------

std::string rendered(const Example& example, const Prediction& prediction) {
  const bool named = !example.pixels.empty() || example.whole_file;
  std::string text = !example.pixels.empty() ? example.place()
                     : example.whole_file    ? example.id
                                             : example.text;
  if (text.empty()) text = fmt::format("{}", fmt::join(example.words, " "));
  std::string result = example.id.empty() || named ? shown(text) : shown(example.id + ": " + text);
  if (prediction.value) return result + fmt::format("\n  {:.6g}", *prediction.value);
  if (prediction.guesses.empty() && example.words.empty()) result += "\n  (no label)";
  for (const Guess& guess : prediction.guesses) {
    result += guess.label.empty() && !example.words.empty()
                  ? "\n  (no label)"
                  : fmt::format("\n  {:.4f}  {}", guess.score,
                                guess.label.empty() ? "(no answer)" : shown(guess.label));
    if (!guess.word.empty()) result += "  " + shown(guess.word);
    if (guess.place) result += fmt::format("  [{}, {})", guess.place->begin, guess.place->end);
  }
  return result;
}

/// The output for an example.
std::string output_of(const PredictOptions& options, const TaskModel& task, const Example& example,
                      const Prediction& prediction) {
  if (!options.common.json) return rendered(example, prediction);
  const std::string json = prediction_json(task, prediction);
  const char* const key = name_key(example);
  if (!key) return json;
  return fmt::format("{{\"{}\":{},\"prediction\":{}}}", key, nlohmann::json(example.id).dump(),
                     json);
}

void predict_files_of_features(const PredictOptions& options, const TaskModel& task, Log& log) {
  refuse_parts(options, "this task reads files of features");
  require_input(!options.arguments.as_text, "--as-text: this task reads files of features");
  require_input(!options.arguments.document, "--document: this task reads files of features");
  require_input(!options.skip_bad,
                "--skip-bad is for texts; correct the features, or leave their file out");
  if (options.attention) {
    require_input(options.arguments.texts.size() == 1,
                  "--attention: a map is of one bag; give one file");
    write_attention(task, options.arguments.texts[0], *options.attention, log);
  }
  EncodingCounts counts;
  for (const std::string& file : options.arguments.texts) {
    const auto dataset = task.reader->read({file}, Labelled::optional);
    const Predictions predictions =
        predict(task, dataset, {options.batch, options.top_k.value_or(default_answers)});
    counts.add(predictions.counts);
    for (std::size_t i = 0; i < predictions.all.size(); ++i) {
      Example example;
      example.text = dataset->sample_name(static_cast<std::int64_t>(i));
      if (!options.common.json)
        fmt::print("{}\n", rendered(example, predictions.all[i]));
      else if (!dataset->has_bags())
        fmt::print("{}\n", prediction_json(task, predictions.all[i]));
      else
        fmt::print("{{\"bag\":{},\"prediction\":{}}}\n", nlohmann::json(example.text).dump(),
                   prediction_json(task, predictions.all[i]));
    }
  }
  warn_of_losses(*task.settings.task.kind, counts, task.settings.data.sequence_length, log);
}

void do_task(const PredictOptions& options, const ModelFolder& folder,
             const std::vector<std::string>& overrides, Device device, Log& log) {
  const TaskModel task = open_task_model(folder, settings_of(folder, options.config, overrides),
                                         options.dtype, device);
  require_input(!*task.settings.task.multi_label || !options.top_k,
                "--top-k: a text has all labels from a probability of task.threshold on; leave it "
                "out, or give --set task.threshold=0.8");
  if (task.settings.task.kind == TaskKind::features)
    return predict_files_of_features(options, task, log);
  require_input(!options.attention, "--attention: this task reads texts, and maps are of features");
  const bool described = is_task_described(folder, options.config);
  EncodingCounts counts;
  PredictionStream stream(options, [&](const std::vector<Example>& examples) {
    const Predictions predictions =
        predict(task, examples, {options.batch, options.top_k.value_or(default_answers)});
    counts.add(predictions.counts);
    std::vector<std::string> outputs;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      outputs.push_back(output_of(options, task, examples[i], predictions.all[i]));
    }
    return outputs;
  });
  for (const std::string& text : options.arguments.texts) {
    if (is_path(options.arguments, text)) {
      refuse_parts(options, fmt::format("'{}' is a file or folder", printable(text, 60)));
      stream.add_file(
          task_of_file(options.arguments, options.common.overrides, task.settings.task, text),
          text);
    } else {
      Example given;
      given.text = text;
      given.pair = options.pair;
      given.choices = options.choices;
      stream.add(example_of(task.settings.task, described, std::move(given)));
    }
  }
  stream.finish(log);
  warn_of_losses(*task.settings.task.kind, counts, task.settings.data.sequence_length, log);
}

void run(const PredictOptions& options, Device device, Log& log) {
  check_texts(options.arguments);
  const SplitOverrides overrides(options.common.overrides, {"task", "data"});
  const ModelFolder folder = open_model(options.model, overrides.model, log);
  if (folder.config.head == Head::masked_lm) {
    for (const std::string& each : overrides.run)
      require_input(std::ranges::all_of(options_in(std::span(&each, 1)),
                                        [](const std::string& option) {
                                          return option == "data" || option == "data.text_column";
                                        }),
                    "--set {}: a masked language model has no task; only options of model and "
                    "data.text_column apply",
                    printable(each, 80));
    require_input(!options.attention,
                  "--attention: this is a masked language model, and maps are of features");
    require_input(!options.config, "--config: a masked language model has no task; leave it out");
    fill(options, folder, overrides.run, device, log);
  } else {
    require_input(folder.config.head != Head::replaced_tokens,
                  "{}: tells replaced tokens and does no task; nystrom finetune trains one, and "
                  "evaluate --minimal-pairs asks it",
                  printable_path(folder.path));
    do_task(options, folder, overrides.run, device, log);
  }
}

}  // namespace

Command add_predict_command(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  auto* command = app.add_subcommand("predict", "Predict with a model: fill masks, or do its task");
  command->footer(
      "The fields are those of Hugging Face's pipelines. An argument that names a file is read as "
      "the training's files of its ending, else as\nits ending says, else as the task's format, or "
      "line by line; one that ends as such files do (.txt, .tsv, .csv, .json, .jsonl, .h5, .hdf5, "
      ".conll, also .gz, "
      ".zst) must be there; --as-text takes\n"
      "all for texts. The results come in the order of the lines, whatever their number.\n"
      "A model trained on folders of documents reads each file as one text, and folders with all\n"
      "files below them; --document does so for other models.\n\n"
      "Examples:\n  nystrom predict runs/small \"The ship sailed on the [MASK].\"\n"
      "  nystrom predict runs/small texts.txt --top-k 3 --json\n"
      "  nystrom predict runs/sst2 \"A gripping film.\" reviews.tsv --json --skip-bad\n"
      "  nystrom predict runs/reviews --document inbox/ --json\n"
      "  nystrom predict runs/squad \"Who built it?\" --pair \"The bridge was built by Brunel.\"");
  add_model_to(*command, options->model);
  command
      ->add_option("TEXT", options->arguments.texts,
                   "texts (for a masked language model with [MASK] in them), files, or folders of "
                   "documents")
      ->required();
  command
      ->add_option(
          "--pair", options->pair,
          "the second text of a pair; the text that answers a question; how each choice begins")
      ->allow_extra_args(false);
  command->add_option("--choice", options->choices, "a choice; repeat the option for the others")
      ->allow_extra_args(false);
  add_number(*command, "--top-k", options->top_k,
             fmt::format("predictions for each mask; most labels, answers or choices shown; "
                         "default: {}",
                         default_answers),
             1, 1 << 24);
  command->add_option("--config", options->config,
                      "YAML file whose task section describes the files; default: the model's own");
  add_number(*command, "--batch", options->batch, "texts computed at once", 1, 1 << 16);
  add_choice(*command, "--dtype", options->dtype, inference_dtype_help, dtype_names);
  command->add_option(
      "--attention", options->attention,
      "features: file to write (.h5) with the model's attention to each row of one bag, "
      "and its coords; with coords also a picture beside it (.png); replaces an earlier map alone");
  options->arguments.add_flags_to(*command);
  command->add_flag("--skip-bad", options->skip_bad,
                    "mark a line that cannot be predicted, and go on");
  options->common.add_to(*command, {.json = "one JSON line a text"});
  return alone(command, options, run);
}

}  // namespace nystrom
