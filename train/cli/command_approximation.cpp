// nystrom approximation: measure the error of Nyström attention on random matrices and in a trained
// model, and its cost.
#include <filesystem>

#include "core/base/distinct.h"
#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/task_settings.h"
#include "train/report/approximation.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// The options that all studies have.
struct StudyOptions {
  CommonOptions common;
  std::string output;

  void add_to(CLI::App& command, const CommonUse& use) {
    command.add_option("--output", output, "folder for the tables (CSV, JSON) and pictures (SVG)");
    common.add_to(command, use);
  }
};

/// The progress of a study, of which a stop signal ends the work.
StudyProgress study_progress(const char* unit, Log& log) {
  return [show = progress_of(unit, log)](std::int64_t done, std::int64_t total) {
    check_interruption();
    show(done, total);
  };
}

/// Measures a study, prints it, and writes its files if --output is given. That folder is made
/// before the measurements start.
void run_study(const StudyOptions& options, const char* name,
               const std::function<Study()>& measure) {
  const bool made = !options.output.empty() && !fs::exists(options.output);
  if (!options.output.empty()) make_study_folder(options.output, name);
  const EndAtSignals stop("stopped; nothing was kept");
  Study study;
  try {
    study = measure();
  } catch (...) {
    std::error_code in_use;
    if (made) fs::remove(options.output, in_use);  // if it is empty
    throw;
  }
  if (!options.output.empty()) write_study(study, options.output);
  if (options.common.json) {
    fmt::print("{}", json_text(study));
    return;
  }
  fmt::print("{}", study.text);
  for (const std::string& sentence : study.verdict) fmt::print("- {}\n", sentence);
  if (!options.output.empty())
    fmt::print("written: {}\n", printable_path(fs::path(options.output) / (study.name + "*")));
}

// ---- matrices -----------------------------------------------------------------------------------

struct MatricesOptions : StudyOptions {
  MatrixStudyOptions study;
};

void run_matrices(const MatricesOptions& options, Device, Log& log) {
  require_distinct("--landmarks", names_of(options.study.landmarks));
  require_distinct("--inverse", names_of(options.study.inverses));
  run_study(options, "matrices",
            [&] { return study_matrices(options.study, study_progress("approximation", log)); });
}

Command add_matrices(CLI::App& parent) {
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
  add_number(*command, "--d-model", study.d_model, "features of a query and of a key", 1, 4096);
  add_number(*command, "--length", study.length, "queries, and keys", 1, 1024);
  add_number(*command, "--trials", study.trials, "matrices", 1, 100000);
  add_number(*command, "--iterations", study.iterations, "steps of the iterative inverse", 0, 1000);
  add_number(*command, "--seed", study.seed, "decides all random numbers", 0,
             std::int64_t{1} << 62);
  add_choice(*command, "--kernel", study.kernel, "raw: Q Kᵀ; softmax: softmax(Q Kᵀ / √d)");
  add_choice(*command, "--sequence", study.sequence,
             "rows of Q and K: independent, or smooth curves");
  add_choice(*command, "--landmarks", study.landmarks,
             "first rows, random rows, or means of segments");
  add_choice(*command, "--inverse", study.inverses, "of the matrix between landmarks",
             {"exact", "iterative"});
  options->add_to(*command, {.set = false, .device = false, .json = "one JSON object"});
  return alone(command, options, run_matrices);
}

// ---- model --------------------------------------------------------------------------------------

struct ModelOptions : StudyOptions {
  std::string model;
  std::vector<std::string> text;
  std::int64_t sequences = 4;
};

void run_model(const ModelOptions& options, Device, Log& log) {
  run_study(options, "model", [&] {
    const SplitOverrides overrides(options.common.overrides, {"data", "masking", "seed"});
    const ModelFolder folder = open_model(options.model, overrides.model, log);
    TextSamples text(folder, options.text, overrides.run);
    text.tokenize(log);
    return study_model(folder, text.samples, options.sequences, study_progress("part", log));
  });
}

Command add_model(CLI::App& parent) {
  auto options = std::make_shared<ModelOptions>();
  auto* command = parent.add_subcommand(
      "model",
      "Compare a trained model's attention with exact attention, layer by layer, on real text");
  command->footer(fmt::format(
      "Examines --sequences of the text's longest sequences, of at most {} tokens (exact "
      "attention matrices are formed), and measures the\n"
      "masked loss on eight times as many. Text is cut and masked as in the model's training; "
      "--set data.…, masking.… and model.… change that.\n\n"
      "Examples:\n"
      "  nystrom approximation model runs/small heldout.txt --output study\n"
      "  nystrom approximation model runs/small heldout.txt --set data.sequence_length=512 "
      "--sequences 2",
      longest_studied_sequence));
  add_model_to(*command, options->model);
  command->add_option("TEXT", options->text, "text files: paths and patterns; plain, .gz or .zst")
      ->required();
  add_number(*command, "--sequences", options->sequences, "sequences to examine", 1, 10000);
  options->add_to(*command, {.device = false, .json = "one JSON object"});
  return alone(command, options, run_model);
}

// ---- cost ---------------------------------------------------------------------------------------

struct CostOptions : StudyOptions {
  CostStudyOptions study;
  std::string mode = "train";
};

void run_cost(const CostOptions& options, Device device, Log& log) {
  require_distinct("--kinds", names_of(options.study.kinds));
  CostStudyOptions study = options.study;
  study.device = device;
  study.train = options.mode == "train";
  run_study(options, "cost", [&] { return study_cost(study, study_progress("measurement", log)); });
}

Command add_cost(CLI::App& parent) {
  auto options = std::make_shared<CostOptions>();
  auto* command = parent.add_subcommand(
      "cost", "Measure time and memory of every attention kind against the length of the sequence");
  command->footer(
      "One attention without projections: the fastest of --repeats runs after a warm-up, and the "
      "exact peak of memory beyond the inputs.\n"
      "Exponents are fitted to the three longest lengths. Nothing else should run on the "
      "machine.\n\n"
      "Examples:\n  nystrom approximation cost --output study\n"
      "  nystrom approximation cost --kinds nystrom softmax --longest 32768 --mode forward --dtype "
      "bf16");
  CostStudyOptions& study = options->study;
  add_choice(*command, "--kinds", study.kinds, "attention kinds; without it all of them");
  add_number(*command, "--shortest", study.shortest, "tokens of the first measurement", 16,
             std::int64_t{1} << 24);
  add_number(*command, "--longest", study.longest,
             "tokens of the last one: --shortest, doubled some times", 16, std::int64_t{1} << 24);
  add_number(*command, "--batch", study.batch, "sequences", 1, 4096);
  add_number(*command, "--tokens", study.tokens,
             "tokens of a measurement, a multiple of --longest, in place of --batch; 0: --batch", 0,
             std::int64_t{1} << 31);
  command->get_option("--tokens")->excludes("--batch");
  add_number(*command, "--heads", study.heads, "heads", 1, 4096);
  add_number(*command, "--head-dim", study.head_dim, "width of a head", 1, 4096);
  add_number(*command, "--landmarks", study.attention.num_landmarks, "landmarks of nystrom", 1,
             65536);
  add_number(*command, "--repeats", study.repeats, "timed runs; the fastest counts", 1, 1000);
  command->add_option("--mode", options->mode, "forward and backward, or only forward")
      ->check(CLI::IsMember({"train", "forward"}))
      ->capture_default_str();
  add_choice(*command, "--dtype", study.dtype, "type of the computation", {"f32", "bf16"});
  options->add_to(*command, {.set = false, .json = "one JSON object"});
  return alone(command, options, run_cost);
}

}  // namespace

Command add_approximation_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("approximation", "Measure the quality and the cost of Nyström attention");
  command->footer(
      "nystrom approximation matrices|model|cost --help shows more.\n\nExample:\n  nystrom "
      "approximation matrices --output study");
  command->require_subcommand(1);
  const std::vector<Command> studies = {add_matrices(*command), add_model(*command),
                                        add_cost(*command)};
  return {command, [studies] {
            for (const Command& study : studies)
              if (study.app->parsed()) study.run();
          }};
}

}  // namespace nystrom
