// nystrom evaluate: measure a model's predictions of masked tokens in a text or in minimal pairs of
// sentences, its results on a downstream task, or its vectors of texts.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "core/base/checksum.h"
#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "data/tasks/task_statistics.h"
#include "data/text/match_files.h"
#include "train/cli/commands.h"
#include "train/cli/embedding_settings.h"
#include "train/cli/text_arguments.h"
#include "train/config/config_io.h"
#include "train/config/validation.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/minimal_pairs.h"
#include "train/objectives/retrieval.h"
#include "train/objectives/task_evaluation.h"
#include "train/objectives/task_settings.h"
#include "train/objectives/vector_evaluation.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

struct EvaluateOptions {
  CommonOptions common;
  std::string model;
  DType dtype = DType::f32;
  std::vector<std::string> text, file, minimal_pairs;
  MinimalPair columns = {"sentence_good", "sentence_bad"};  // those of BLiMP
  std::optional<std::string> config;
  std::string retrieval;           // a folder in BEIR's form; or
  std::vector<std::string> pairs;  // files of scored pairs; or
  // Files of labelled texts: those to fit a classifier to, and those that it is measured on.
  std::vector<std::string> classify, test;
  std::optional<std::string> split;
  EmbeddingFlags vectors;
  std::int64_t batch = 16;
  bool document = false;

  bool measures_vectors() const {
    return !retrieval.empty() || !pairs.empty() || !classify.empty();
  }
};

void print(const Evaluation& result) {
  const auto line = [](const char* name, double loss, double accuracy) {
    fmt::print("{:<22}{:>8.4f}{:>14.2f}{:>9.2f} %\n", name, loss, std::exp(loss), 100 * accuracy);
  };
  fmt::print("{} masked tokens\n{:<22}{:>8}{:>14}{:>11}\n", result.tokens, "", "loss", "perplexity",
             "accuracy");
  line("model", result.loss, result.accuracy);
  line("by token frequency", result.frequency_loss, result.frequency_accuracy);
  const double gain = result.frequency_loss - result.loss;
  fmt::print(
      "the model is {} than always predicting by the token frequency of this text, by {:.4f} nats "
      "a token\n",
      gain > 0 ? "better" : "no better", std::abs(gain));
  if (result.order_accuracy)
    fmt::print("sentence order accuracy: {:.2f} %\n", 100 * *result.order_accuracy);
}

void print_json(const Evaluation& result) {
  nlohmann::ordered_json json = {{"tokens", result.tokens},
                                 {"loss", result.loss},
                                 {"perplexity", std::exp(result.loss)},
                                 {"accuracy", result.accuracy},
                                 {"frequency_loss", result.frequency_loss},
                                 {"frequency_accuracy", result.frequency_accuracy},
                                 {"better_than_frequency", result.loss < result.frequency_loss}};
  if (result.order_accuracy) json["sentence_order_accuracy"] = *result.order_accuracy;
  fmt::print("{}\n", json.dump());
}

/// Throws an InputError unless all processes have the same model and tokenizer, and the same
/// settings of the model's folder: each would contribute results of its own.
void require_same_model(const EvaluateOptions& options, const Model& model,
                        const Tokenizer* tokenizer, Communicator& communicator,
                        const std::string& settings = "") {
  if (communicator.size() == 1) return;
  communicator.require_same_files(
      printable(options.model),
      model_hash(model) + (tokenizer ? tokenizer->definition() : "") + settings);
}

void evaluate_text(const EvaluateOptions& options, const ModelFolder& folder,
                   const std::vector<std::string>& overrides, Device device, Log& log,
                   Communicator& communicator) {
  TextSamples text(folder, options.text, overrides);
  const auto model = load_model(folder, options.dtype, StoreMode::inference, device);
  require_same_model(options, *model, text.tokenizer.get(), communicator, to_yaml(text.config));
  text.tokenize(log);
  communicator.require_same_files("--text", text.samples.packing->dataset().checksum());
  const std::int64_t total = text.samples.packing->size();
  std::optional<Progress> progress(std::in_place, "sequence", 0, total, log);
  const auto start = std::chrono::steady_clock::now();
  const auto show = [&](std::int64_t done) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress->update(done, fmt::format("{:.1f} sequences/s", static_cast<double>(done) / seconds),
                     done == total);
  };
  const Evaluation result =
      evaluate_masked_lm(*model, text.samples, options.batch, communicator, show);
  progress.reset();
  if (!communicator.is_first()) return;
  if (options.common.json) {
    print_json(result);
  } else {
    print(result);
  }
}

// ---- Minimal pairs ------------------------------------------------------------------------------

struct PairFile {
  fs::path path;
  EncodedPairs encoded;
  double accuracy = 0;
  std::int64_t ties = 0;

  std::int64_t pairs() const { return std::ssize(encoded.sentences) / 2; }
};

/// Reads and encodes all pairs, before a model computes any.
std::vector<PairFile> read_pair_files(const EvaluateOptions& options, const ModelFolder& folder,
                                      const Tokenizer& tokenizer, Log& log,
                                      Communicator& communicator) {
  std::vector<PairFile> files;
  Checksum inputs;
  EncodedPairs all;  // without the sentences
  std::int64_t count = 0;
  for (const fs::path& path : match_files(options.minimal_pairs)) {
    const std::vector<MinimalPair> pairs = read_minimal_pairs(path, options.columns);
    for (const MinimalPair& pair : pairs)
      for (const std::string& sentence : {pair.good, pair.bad})
        inputs.update(sentence.c_str(), sentence.size() + 1);
    files.push_back({path, encode_pairs(tokenizer, pairs, folder.config.longest_sequence())});
    const EncodedPairs& encoded = files.back().encoded;
    count += files.back().pairs();
    all.tokens += encoded.tokens;
    all.unknown += encoded.unknown;
    all.pairs_with_unknown += encoded.pairs_with_unknown;
  }
  communicator.require_same_files("--minimal-pairs", inputs.hex());
  require_input(all.unknown < all.tokens,
                "--minimal-pairs: all tokens are unknown; the tokenizer does not fit the text");
  const double share = static_cast<double>(all.unknown) / static_cast<double>(all.tokens);
  if (share > 0.01)
    log.warn(
        fmt::format("--minimal-pairs: {:.1f} % of the tokens are unknown, in {} of {} pairs; the "
                    "tokenizer does not fit the text",
                    100 * share, all.pairs_with_unknown, count));
  return files;
}

/// Measures each file. The processes share its pairs.
void measure(const EvaluateOptions& options, const ModelFolder& folder, const Tokenizer& tokenizer,
             std::vector<PairFile>& files, Device device, Log& log, Communicator& communicator) {
  const auto model = load_model(folder, options.dtype, StoreMode::inference, device);
  require_same_model(options, *model, &tokenizer, communicator);
  Progress progress("file", 0, std::ssize(files), log);
  for (std::size_t i = 0; i < files.size(); ++i) {
    PairFile& file = files[i];
    const auto part = [&](std::int64_t rank) {
      return static_cast<std::size_t>(2 * (file.pairs() * rank / communicator.size()));
    };
    const std::size_t begin = part(communicator.rank()), end = part(communicator.rank() + 1);
    const PairCounts counts =
        count_pairs(*model, tokenizer,
                    std::span(file.encoded.sentences).subspan(begin, end - begin), options.batch);
    file.accuracy =
        communicator.sum(static_cast<double>(counts.preferred)) / static_cast<double>(file.pairs());
    file.ties = static_cast<std::int64_t>(communicator.sum(static_cast<double>(counts.ties)));
    if (file.ties > 0)
      log.warn(
          fmt::format("{}: {} of {} pairs are ties, and count as wrong: their sentences are "
                      "the same tokens, or equally probable but for rounding",
                      printable_path(file.path), file.ties, file.pairs()));
    progress.update(static_cast<std::int64_t>(i + 1), "", i + 1 == files.size());
  }
}

void evaluate_minimal_pairs(const EvaluateOptions& options, const ModelFolder& folder,
                            Device device, Log& log, Communicator& communicator) {
  const auto tokenizer = folder.config.head == Head::replaced_tokens
                             ? require_tokenizer_of(folder)
                             : open_masked_lm_tokenizer(folder);
  std::vector<PairFile> files = read_pair_files(options, folder, *tokenizer, log, communicator);
  measure(options, folder, *tokenizer, files, device, log, communicator);
  if (!communicator.is_first()) return;
  double mean = 0;
  std::int64_t pairs = 0, ties = 0;
  std::map<fs::path, int> names;
  for (const PairFile& file : files) ++names[file.path.filename()];
  nlohmann::ordered_json by_file = nlohmann::ordered_json::array();
  if (!options.common.json) fmt::print("{:<52}{:>8}{:>12}\n", "", "pairs", "accuracy");
  const auto line = [](const std::string& name, std::int64_t count, double accuracy) {
    fmt::print("{:<52}{:>8}{:>10.2f} %\n", name, count, 100 * accuracy);
  };
  for (const PairFile& file : files) {
    mean += file.accuracy / static_cast<double>(files.size());
    pairs += file.pairs();
    ties += file.ties;
    by_file.push_back({{"file", json_path(file.path)},
                       {"pairs", file.pairs()},
                       {"accuracy", file.accuracy},
                       {"ties", file.ties}});
    const fs::path name = file.path.filename();
    if (!options.common.json)
      line(printable_path(names[name] > 1 ? file.path : name), file.pairs(), file.accuracy);
  }
  if (!options.common.json) return line("mean of the files", pairs, mean);
  const nlohmann::ordered_json json = {
      {"pairs", pairs}, {"accuracy", mean}, {"ties", ties}, {"files", by_file}};
  fmt::print("{}\n", json.dump());
}

// ---- Tasks --------------------------------------------------------------------------------------

TaskEvaluation measure(const EvaluateOptions& options, const TaskModel& task,
                       const std::shared_ptr<const TaskDataset>& dataset, Log& log,
                       Communicator& communicator) {
  Progress progress("sample", 0, dataset->size(), log);
  Checksum inputs;
  inputs.update(dataset->digests().data(), dataset->digests().size() * sizeof(Digest));
  communicator.require_same_files("--file", inputs.hex());
  const auto show = [&](std::int64_t done) { progress.update(done, "", done == dataset->size()); };
  return evaluate_task(*task.model, dataset, options.batch, communicator, show);
}

/// The figures of each class, a line each.
void print_classes(const TaskDataset& data, const TaskScores& scores) {
  constexpr std::size_t most = 30;
  if (scores.classes.empty() || scores.classes.size() > most) return;
  std::size_t width = 5;
  for (const std::string& name : data.labels().names())
    width = std::max(width, printable(name, 40).size());
  fmt::print("{:<{}}  examples  precision   recall       f1        auc\n", "label", width);
  for (std::size_t i = 0; i < scores.classes.size(); ++i) {
    const ClassFigures& figures = scores.classes[i];
    fmt::print("{:<{}}  {:>8}  {:>9.4f}  {:>7.4f}  {:>7.4f}  {:>9}\n",
               printable(data.labels().names()[i], 40), width, figures.support,
               figures.score.precision, figures.score.recall, figures.score.f1,
               metric_text(figures.auc));
  }
}

void evaluate_files(const EvaluateOptions& options, const ModelFolder& folder,
                    const std::vector<std::string>& overrides, Device device, Log& log,
                    Communicator& communicator) {
  RunConfig settings = settings_of(folder, options.config, overrides);
  const std::set<std::string> given = options_in(overrides);
  if (!given.contains("task.columns.group")) settings.task.columns.group.reset();  // of training
  if (!given.contains("task.columns.weight")) settings.task.columns.weight.reset();
  const TaskModel task = open_task_model(folder, std::move(settings), options.dtype, device);
  RunConfig shared = task.settings;
  shared.run_dir = shared.data.cache = "";
  shared.task.train = shared.task.validation = {};
  require_same_model(options, *task.model, task.tokenizer.get(), communicator, to_yaml(shared));
  require_none(problems(task.settings.task));  // data.text_column may name that of the labels
  const auto dataset = task.reader->read(options.file, Labelled::required);
  for (const std::string& line : warnings_of(dataset->skipped())) log.warn(line);
  warn_of_losses(dataset->kind(), dataset->counts(), task.settings.data.sequence_length, log);
  const TaskEvaluation result = measure(options, task, dataset, log, communicator);
  if (!communicator.is_first()) return;
  const TaskScores baseline = constant_scores(*dataset);
  if (options.common.json) {
    auto json = evaluation_json(*dataset, result);
    json["baseline"] = baseline.decisive;
    if (const auto left_out = dataset->skipped().count; left_out > 0) json["left_out"] = left_out;
    fmt::print("{}\n", results_text(json));
    return;
  }
  fmt::print("{} examples\n", dataset->examples());
  std::size_t width = 14;
  for (const auto& [name, value] : result.scores.values) width = std::max(width, name.size() + 2);
  for (const auto& [name, value] : result.scores.values)
    fmt::print("{:<{}}{:>8}\n", name, width, metric_text(value));
  fmt::print("{:<{}}{:>8.4f}\n", "loss", width, result.loss);
  print_classes(*dataset, result.scores);
  fmt::print("always {}: {} {}\n", constant_prediction(dataset->target()), baseline.metric,
             metric_text(baseline.decisive));
}

// ---- Vectors of texts ---------------------------------------------------------------------------

void print(const VectorScores& result, bool json) {
  if (json) {
    nlohmann::ordered_json object;
    for (const auto& [name, value] : result.counts) object[name] = value;
    for (const auto& [name, value] : result.scores) object[name] = value;
    fmt::print("{}\n", object.dump());
    return;
  }
  std::vector<std::string> words;
  for (const auto& [name, value] : result.counts)
    words.push_back(fmt::format("{} {}", value, name));
  fmt::print("{}\n", fmt::join(words, ", "));
  for (const auto& [name, value] : result.scores)
    fmt::print("{:<14}{:>8}\n", name, metric_text(value));
}

/// A checksum of the files that patterns match.
std::string identity_of(const std::vector<std::string>& patterns) {
  std::string identity;
  for (const auto& file : match_files(patterns)) identity += file_checksum(file);
  return identity;
}

VectorScores score_retrieval(const EvaluateOptions& options, const VectorModel& model, Log& log,
                             Communicator& communicator) {
  for (const std::string& each : options.common.overrides) {
    const std::set<std::string> named = options_in(std::span(&each, 1));
    require_input(!named.contains("task") && !named.contains("data.text_column"),
                  "--set {}: the files of --retrieval have columns of their own; leave it out",
                  printable(each, 60));
  }
  const RetrievalSet set = read_retrieval(options.retrieval, options.split);
  if (communicator.size() > 1) communicator.require_same_files("--retrieval", checksum_of(set));
  for (const std::string& note : set.notes) log.warn(note);
  const EmbeddingFlags flags = model.for_ranking(options.vectors);
  TextEmbedder queries = model.embedder(flags, PromptKind::query, &communicator);
  TextEmbedder documents = model.embedder(flags, PromptKind::document, &communicator);
  const RankingScores scores =
      evaluate_retrieval(queries, documents, set, progress_of("document", log));
  say_note(queries, log);
  say_note(documents, log);
  VectorScores result;
  result.counts = {{"queries", std::ssize(set.queries)},
                   {"documents", std::ssize(set.document_places)}};
  for (std::size_t i = 0; i < scores.size(); ++i)
    result.scores.emplace_back(enum_name(ranking_metrics[i]), scores[i]);
  return result;
}

VectorScores score_pairs(const EvaluateOptions& options, const VectorModel& model, Log& log,
                         Communicator& communicator) {
  TaskConfig task = model.task;
  if (!task.columns.pair) task.columns.pair = "pair";
  require_none(problems(task));
  require_ranked(model.folder.config.embedding.similarity, printable_path(model.folder.path));
  communicator.require_same_files("--pairs", text_checksum(identity_of(options.pairs)));
  TextEmbedder first = model.embedder(options.vectors, PromptKind::query, &communicator);
  TextEmbedder second = model.embedder(options.vectors, PromptKind::document, &communicator);
  VectorScores result = evaluate_pairs(first, second, task, options.pairs);
  say_note(first, log);
  say_note(second, log);
  return result;
}

VectorScores score_classes(const EvaluateOptions& options, const VectorModel& model, Log& log,
                           Communicator& communicator) {
  TaskConfig task = model.task;
  task.train = options.classify;
  task.validation = options.test;
  require_none(problems(task));
  communicator.require_same_files(
      "--classify and --test",
      text_checksum(identity_of(task.train) + identity_of(task.validation)));
  TextEmbedder embedder = model.embedder(options.vectors, PromptKind::document, &communicator);
  VectorScores result = evaluate_classes(embedder, task);
  say_note(embedder, log);
  return result;
}

void evaluate_vectors(const EvaluateOptions& options, Device device, Log& log,
                      Communicator& communicator) {
  const bool pairs = !options.pairs.empty();
  const VectorModel model = open_vector_model(
      options.model, options.common.overrides,
      pairs ? TaskKind::regression : TaskKind::classification, options.dtype, device, log);
  require_same_model(options, *model.model, model.tokenizer.get(), communicator,
                     std::to_string(model.sequence_length));
  const auto score = pairs                       ? score_pairs
                     : !options.classify.empty() ? score_classes
                                                 : score_retrieval;
  const VectorScores scores = score(options, model, log, communicator);
  for (const std::string& warning : scores.warnings) log.warn(warning);
  if (communicator.is_first()) print(scores, options.common.json);
}

// ---- The command --------------------------------------------------------------------------------

/// Throws an InputError unless the options name one thing to measure, and fit it.
void require_one_subject(const EvaluateOptions& options) {
  std::vector<std::string> given;
  if (!options.text.empty()) given.emplace_back("--text");
  if (!options.file.empty()) given.emplace_back("--file");
  if (!options.minimal_pairs.empty()) given.emplace_back("--minimal-pairs");
  if (!options.retrieval.empty()) given.emplace_back("--retrieval");
  if (!options.pairs.empty()) given.emplace_back("--pairs");
  if (!options.classify.empty()) given.emplace_back("--classify");
  require_input(!given.empty(),
                "nothing to evaluate on; give text files (nystrom evaluate {0} --text "
                "heldout.txt), or files of the model's task (nystrom evaluate {0} --file dev.tsv)",
                printable(options.model));
  require_input(
      given.size() == 1,
      "{} are given; --text and --minimal-pairs are for masked language models, --file for "
      "tasks, --retrieval, --pairs and --classify for vectors; give one of them",
      fmt::join(given, " and "));
  require_input(options.columns.good != options.columns.bad,
                "--good and --bad are both '{}'; name the columns of two sentences",
                printable(options.columns.good, 80));
  require_input(options.measures_vectors() || !options.vectors.dimensions,
                "--dimensions is for --retrieval, --pairs and --classify; with {} leave it out",
                given[0]);
}

void run(EvaluateOptions options, Communicator& communicator, Device device) {
  require_one_subject(options);
  Log log(options.common.quiet);
  if (!communicator.is_first()) log.mute();
  const EndAtSignals stop("stopped; nothing was kept");
  communicator.require_same_options(fmt::format(
      "{} {} {} {} {} {} {} {}", enum_name(options.dtype), options.batch, options.document,
      options.columns.good, options.columns.bad, options.split.value_or(""),
      options.vectors.dimensions.value_or(0), fmt::join(options.common.overrides, "\n")));
  if (options.measures_vectors()) {
    options.vectors.batch_size = options.batch;
    return evaluate_vectors(options, device, log, communicator);
  }
  const bool task = !options.file.empty(), minimal_pairs = !options.minimal_pairs.empty();
  const char* const subject = minimal_pairs ? "--minimal-pairs" : "--text";
  if (options_in(options.common.overrides).contains("task.format"))
    refuse_format_beside(options.document);
  if (options.document) options.common.overrides.push_back("task.format=folders");
  const SplitOverrides overrides(options.common.overrides,
                                 task ? std::vector<std::string>{"task", "data"}
                                 : minimal_pairs
                                     ? std::vector<std::string>{}
                                     : std::vector<std::string>{"data", "masking", "seed"});
  const ModelFolder folder = open_model(options.model, overrides.model, log);
  const bool replaced = folder.config.head == Head::replaced_tokens;
  require_input(!replaced || minimal_pairs,
                "{}: tells replaced tokens, which a generator makes while it is trained; "
                "--minimal-pairs evaluates it",
                printable_path(folder.path));
  require_task_or_text(folder);
  require_input(!task || folder.config.head != Head::masked_lm,
                "{}: is a masked language model and does no task; --text and --minimal-pairs "
                "evaluate it",
                printable_path(folder.path));
  require_input(task || replaced || folder.config.head == Head::masked_lm,
                "{}: is no masked language model, which {} evaluates; it is a {}: --file gives "
                "it the files of its task",
                printable_path(folder.path), subject, enum_name(folder.config.head));
  if (task) {
    evaluate_files(options, folder, overrides.run, device, log, communicator);
  } else if (minimal_pairs) {
    evaluate_minimal_pairs(options, folder, device, log, communicator);
  } else {
    evaluate_text(options, folder, overrides.run, device, log, communicator);
  }
}

/// Runs the evaluation. A stop signal to one of several processes ends all of them with exit code
/// 130, because the others would wait for its part.
void run_or_end_all(const EvaluateOptions& options, Communicator& communicator, Device device) {
  try {
    run(options, communicator, device);
  } catch (const Interrupted& reason) {
    if (communicator.size() == 1) throw;
    if (communicator.is_first())
      std::fputs(fmt::format("nystrom: {}\n", reason.what()).c_str(), stderr);
    communicator.end_all(130);
  }
}

}  // namespace

Command add_evaluate_command(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  auto* command = app.add_subcommand(
      "evaluate",
      "Measure how well a model predicts the masked tokens of a text, does its task, or finds "
      "texts by their vectors");
  command->footer(
      "Text is cut and masked as in the model's training when its folder says how (config.yaml), "
      "else by the defaults; --set data.… and\n"
      "--set masking.… change that, --set model.… the model. The files of a task are read as in "
      "fine-tuning; for a folder without\n"
      "config.yaml say how by --config or --set task.…. Vectors are those of nystrom embed; "
      "--pairs reads columns text, pair and label,\nor those of --set task.columns.… or "
      "task.recipe=stsb; --classify reads text and label. Started by mpirun or srun, the processes "
      "share the work.\n\n"
      "Examples:\n  nystrom evaluate runs/small --text heldout.txt --set data.documents=lines\n"
      "  nystrom evaluate runs/sst2 --file dev.tsv --json\n"
      "  nystrom evaluate runs/small --minimal-pairs 'blimp/*.jsonl'\n"
      "  nystrom evaluate runs/mine --retrieval beir/scifact\n"
      "  nystrom evaluate runs/mine --pairs sts-dev.tsv --set task.recipe=stsb\n"
      "  nystrom evaluate runs/mine --classify train.tsv --test dev.tsv");
  add_model_to(*command, options->model);
  command->add_option("--text", options->text,
                      "text files: paths and patterns; plain, .gz or .zst");
  command->add_option("--file", options->file, "files of the model's task: paths and patterns");
  command->add_option("--minimal-pairs", options->minimal_pairs,
                      "tables of an acceptable and an unacceptable sentence each, as BLiMP's JSON "
                      "Lines: the accuracy of the model's pseudo-log-likelihoods");
  command
      ->add_option("--good", options->columns.good, "--minimal-pairs: key of acceptable sentences")
      ->needs("--minimal-pairs")
      ->capture_default_str();
  command
      ->add_option("--bad", options->columns.bad, "--minimal-pairs: key of unacceptable sentences")
      ->needs("--minimal-pairs")
      ->capture_default_str();
  command->add_option("--retrieval", options->retrieval,
                      "folder in BEIR's form: queries.jsonl, corpus.jsonl, qrels/*.tsv");
  command
      ->add_option("--split", options->split,
                   "--retrieval: the file of qrels, without .tsv; default: test")
      ->needs("--retrieval");
  command->add_option("--pairs", options->pairs,
                      "files of pairs of texts with scores: paths and patterns");
  auto* classify = command->add_option(
      "--classify", options->classify,
      "files of labelled texts, to whose vectors a logistic regression is fitted");
  auto* test =
      command->add_option("--test", options->test,
                          "--classify: files of labelled texts that the regression is measured on");
  test->needs(classify);
  classify->needs(test);
  options->vectors.add_dimensions_to(*command);
  command
      ->add_option("--config", options->config,
                   "YAML file whose task section describes the files; default: the model's own")
      ->needs("--file");
  command
      ->add_flag("--document", options->document,
                 "--file names folders with a subfolder for each label, and a document in each "
                 "file; default: as in training")
      ->needs("--file");
  add_number(*command, "--batch", options->batch, "sequences computed at once", 1, 1 << 16);
  add_choice(*command, "--dtype", options->dtype, dtype_help, dtype_names);
  options->common.add_to(*command, {.json = "one JSON object"});
  const auto run = [options] {
    with_processes(options->common, [&](Communicator& communicator, Device device) {
      run_or_end_all(*options, communicator, device);
    });
  };
  return {command, run, true};
}

}  // namespace nystrom
