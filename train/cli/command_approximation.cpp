// nystrom approximation: measure the error of Nyström attention on random matrices and in a trained
// model, and its cost.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <filesystem>

#include "core/base/distinct.h"
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/scratch_folder.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "data/text/text.h"
#include "train/cli/commands.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/task_settings.h"
#include "train/objectives/text_statistics.h"
#include "train/report/approximation_cost.h"
#include "train/report/approximation_matrices.h"
#include "train/report/approximation_model.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// The options that all studies have.
struct StudyOptions {
  CommonOptions common;
  std::string output;
  bool json = false;

  void add_to(CLI::App& command, const CommonUse& use) {
    command.add_option("--output", output, "folder for the tables (CSV, JSON) and pictures (SVG)");
    command.add_flag("--json", json, "print one JSON object");
    common.add_to(command, use);
  }
};

/// Prints a study, and writes its files if --output is given.
void show(const Study& study, const StudyOptions& options) {
  if (!options.output.empty()) write_study(study, options.output);
  if (options.json) {
    fmt::print("{}", json_text(study));
    return;
  }
  fmt::print("{}", study.text);
  for (const std::string& sentence : study.verdict) fmt::print("- {}\n", sentence);
  if (!options.output.empty())
    fmt::print("written: {}\n", printable_path(fs::path(options.output) / (study.name + "*")));
}

/// Checks the output folder before the measurements start.
void check_output(const StudyOptions& options, const std::string& study) {
  if (!options.output.empty()) check_study_folder(options.output, study);
}

/// The progress bar of a study, of which a stop signal ends the work.
class StudyBar {
 public:
  StudyBar(const char* unit, std::int64_t total, const StudyOptions& options)
      : log_(options.common.quiet), bar_(unit, 0, total, log_) {}
  void update(std::int64_t done, bool last) {
    check_interruption();
    bar_.update(done, "", last);
  }

 private:
  Log log_;
  Progress bar_;
};

/// Declares an option whose values are the names of an enum.
template <class E, class Words>
CLI::Option* add_words(CLI::App& command, const char* name, Words& words, const char* help) {
  return command.add_option(name, words, help)
      ->check(CLI::IsMember(names_of<E>()))
      ->capture_default_str();
}

void add_size(CLI::App& command, const char* name, std::int64_t& value, const char* help,
              std::int64_t lowest, std::int64_t highest) {
  command.add_option(name, value, help)->check(CLI::Range(lowest, highest))->capture_default_str();
}

// ---- matrices -----------------------------------------------------------------------------------

struct MatricesOptions : StudyOptions {
  MatrixStudyOptions study;
  std::int64_t seed = 0;
  std::string kernel = "raw", sequence = "random";
  std::vector<std::string> landmarks = {"first"}, inverses = {"exact"};
};

void run_matrices(MatricesOptions options) {
  options.common.apply();
  options.common.refuse_overrides("approximation matrices",
                                  "approximation matrices has no configuration");
  require_distinct("--landmarks", options.landmarks);
  require_distinct("--inverse", options.inverses);
  check_output(options, "matrices");
  const EndAtSignals stop("stopped; nothing was kept");
  MatrixStudyOptions& study = options.study;
  study.seed = static_cast<std::uint64_t>(options.seed);
  study.kernel = value_named<ScoreKernel>(options.kernel);
  study.sequence = value_named<SequenceRule>(options.sequence);
  study.landmarks.clear();
  study.inverses.clear();
  for (const std::string& name : options.landmarks)
    study.landmarks.push_back(value_named<LandmarkRule>(name));
  for (const std::string& name : options.inverses)
    study.inverses.push_back(value_named<StudyInverse>(name));
  StudyBar bar("landmarks", study.length, options);
  show(study_matrices(study, [&](std::int64_t done) { bar.update(done, done == study.length); }),
       options);
}

std::function<void()> add_matrices(CLI::App& parent) {
  auto options = std::make_shared<MatricesOptions>();
  auto* command = parent.add_subcommand(
      "matrices", "Approximate matrices of random queries and keys through 1, 2, 3 … landmarks");
  command->footer(
      "The error is the Frobenius norm of the difference over that of the matrix. Several "
      "--landmarks and --inverse words are compared;\n"
      "--inverse iterative needs --kernel softmax, for whose rows, which sum to 1, its first step "
      "is scaled.\n\n"
      "Examples:\n  nystrom approximation matrices --output study\n"
      "  nystrom approximation matrices --kernel softmax --sequence smooth --landmarks first "
      "random means --output study\n"
      "  nystrom approximation matrices --kernel softmax --landmarks means --inverse exact "
      "iterative --iterations 6");
  MatrixStudyOptions& study = options->study;
  add_size(*command, "--d-model", study.d_model, "features of a query and of a key", 1, 4096);
  add_size(*command, "--length", study.length, "queries, and keys", 1, 1024);
  add_size(*command, "--trials", study.trials, "matrices", 1, 100000);
  add_size(*command, "--iterations", study.iterations, "steps of the iterative inverse", 0, 1000);
  add_size(*command, "--seed", options->seed, "decides all random numbers", 0,
           std::int64_t{1} << 62);
  add_words<ScoreKernel>(*command, "--kernel", options->kernel,
                         "raw: Q Kᵀ; softmax: softmax(Q Kᵀ / √d)");
  add_words<SequenceRule>(*command, "--sequence", options->sequence,
                          "rows of Q and K: independent, or smooth curves");
  add_words<LandmarkRule>(*command, "--landmarks", options->landmarks,
                          "first rows, random rows, or means of segments");
  add_words<StudyInverse>(*command, "--inverse", options->inverses,
                          "of the matrix between landmarks");
  options->add_to(*command, {.set = false, .device = false});
  return [options] { run_matrices(*options); };
}

// ---- model --------------------------------------------------------------------------------------

struct ModelOptions : StudyOptions {
  std::string model;
  std::vector<std::string> text;
  std::int64_t sequences = 4;
};

void run_model(const ModelOptions& options) {
  options.common.apply();
  check_output(options, "model");
  const EndAtSignals stop("stopped; nothing was kept");
  const SplitOverrides overrides(options.common.overrides, {"data", "masking", "seed"});
  Study study;
  {
    Log log(options.common.quiet);
    const ModelFolder folder = open_model_folder(options.model, overrides.model, log);
    const RunConfig config = masked_lm_settings(folder, overrides.run);
    const auto tokenizer = open_masked_lm_tokenizer(folder);
    const ScratchFolder scratch;
    auto tokens = tokenize_text_option(match_texts(options.text, text_form(config.data)), config,
                                       *tokenizer, scratch.path() / "tokens", log);
    const MaskedSamples samples = masked_samples(std::move(tokens), *tokenizer, config);
    std::optional<StudyBar> bar;
    study = study_of(measure_model(folder, samples, options.sequences,
                                   [&](std::int64_t done, std::int64_t total) {
                                     if (!bar) bar.emplace("part", total, options);
                                     bar->update(done, done == total);
                                   }));
  }
  show(study, options);
}

std::function<void()> add_model(CLI::App& parent) {
  auto options = std::make_shared<ModelOptions>();
  auto* command = parent.add_subcommand(
      "model",
      "Compare a trained model's attention with exact attention, layer by layer, on real text");
  command->footer(fmt::format(
      "Looks into --sequences of the text's longest sequences, of at most {} tokens (exact "
      "attention matrices are formed), and "
      "measures the\n"
      "masked loss on eight times as many. Text is cut and masked as in the model's training; "
      "--set data.…, masking.… and "
      "model.… change that.\n"
      "\nExamples:\n  nystrom approximation model runs/small heldout.txt --output study\n"
      "  nystrom approximation model runs/small heldout.txt --set data.sequence_length=512 "
      "--sequences 2",
      longest_studied_sequence));
  command->add_option("MODEL", options->model, "Hugging Face folder, run directory or checkpoint")
      ->required();
  command->add_option("TEXT", options->text, "text files: paths and patterns; plain, .gz or .zst")
      ->required();
  add_size(*command, "--sequences", options->sequences, "sequences to look into", 1, 10000);
  options->add_to(*command, {.device = false});
  return [options] { run_model(*options); };
}

// ---- cost ---------------------------------------------------------------------------------------

struct CostOptions : StudyOptions {
  CostStudyOptions study;
  std::vector<std::string> kinds;
  std::string mode = "train", dtype = "f32";
};

void run_cost(CostOptions options) {
  options.study.device = options.common.apply();
  options.common.refuse_overrides("approximation cost", "approximation cost has no configuration");
  require_distinct("--kinds", options.kinds);
  check_output(options, "cost");
  const EndAtSignals stop("stopped; nothing was kept");
  for (const std::string& name : options.kinds)
    options.study.kinds.push_back(value_named<AttentionKind>(name));
  options.study.train = options.mode == "train";
  options.study.dtype = value_named<DType>(options.dtype);
  std::optional<StudyBar> bar;
  const Study study = study_cost(options.study, [&](std::int64_t done, std::int64_t total) {
    if (!bar) bar.emplace("measurement", total, options);
    bar->update(done, done == total);
  });
  show(study, options);
}

std::function<void()> add_cost(CLI::App& parent) {
  auto options = std::make_shared<CostOptions>();
  auto* command = parent.add_subcommand(
      "cost", "Measure time and memory of every attention kind against the length of the sequence");
  command->footer(
      "One attention without projections: the fastest of --repeats runs after one more, and the "
      "exact peak of memory beyond the inputs.\n"
      "Exponents are fitted to the three longest lengths. Nothing else should run on the "
      "machine.\n\n"
      "Examples:\n  nystrom approximation cost --output study\n"
      "  nystrom approximation cost --kinds nystrom softmax --longest 32768 --mode forward --dtype "
      "bf16");
  CostStudyOptions& study = options->study;
  add_words<AttentionKind>(*command, "--kinds", options->kinds,
                           "attention kinds; without it all of them");
  add_size(*command, "--shortest", study.shortest, "tokens of the first measurement", 16,
           std::int64_t{1} << 24);
  add_size(*command, "--longest", study.longest, "tokens are doubled up to it", 16,
           std::int64_t{1} << 24);
  add_size(*command, "--batch", study.batch, "sequences", 1, 4096);
  add_size(*command, "--tokens", study.tokens, "as many sequences as have them; 0: --batch", 0,
           std::int64_t{1} << 31);
  add_size(*command, "--heads", study.heads, "heads", 1, 4096);
  add_size(*command, "--head-dim", study.head_dim, "width of a head", 1, 4096);
  add_size(*command, "--landmarks", study.attention.num_landmarks, "landmarks of nystrom", 1,
           65536);
  add_size(*command, "--repeats", study.repeats, "runs of which the fastest counts", 1, 1000);
  command->add_option("--mode", options->mode, "forward and backward, or only forward")
      ->check(CLI::IsMember({"train", "forward"}))
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "type of the computation")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  options->add_to(*command, {.set = false});
  return [options] { run_cost(*options); };
}

}  // namespace

Command add_approximation_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("approximation", "Measure the quality and the cost of Nyström attention");
  command->footer(
      "nystrom approximation matrices|model|cost --help shows more.\n\nExample:\n  nystrom "
      "approximation matrices --output study");
  command->require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<void()>>> studies;
  for (const auto& add : {add_matrices, add_model, add_cost}) {
    std::function<void()> run = add(*command);
    studies.emplace_back(command->get_subcommands([](const CLI::App*) { return true; }).back(),
                         std::move(run));
  }
  return {command, [studies] {
            for (const auto& [study, run] : studies) {
              if (study->parsed()) run();
            }
          }};
}

}  // namespace nystrom
