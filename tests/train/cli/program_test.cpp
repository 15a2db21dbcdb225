// The built program as users run it: results, one-line messages, exit codes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/fixtures.h"
#include "tests/support/models.h"
#include "tests/support/places.h"
#include "tests/support/run_program.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/export/forward.h"
#include "train/loop/run_spec.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"

namespace nystrom::testing {
namespace {

std::filesystem::path model_folder() { return fixture_folder() / "hf" / "mlm_exact_padded"; }

/// Creates a link `model` to a fixture, and its `batch.safetensors`.
void furnish(const TemporaryFolder& folder) {
  std::filesystem::create_directory_symlink(model_folder(), folder / "model");
  std::filesystem::copy_file(model_folder() / "batch.safetensors", folder / "batch.safetensors");
}

constexpr const char* forward =
    "forward model --quiet --input batch.safetensors --output out.safetensors ";

/// A build without CUDA gives a clear error.
TEST(Program, RefusesAGpuThatItWasNotBuiltFor) {
  const TemporaryFolder folder;
  furnish(folder);
  const Outcome outcome = run_program(folder, std::string(forward) + "--device cuda");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(
      outcome.err,
      "nystrom: --device cuda: this build of nystrom has no CUDA support; use --device cpu\n");
}

TEST(Program, ReadsAPipeAsAFile) {
  const TemporaryFolder folder;
  furnish(folder);
  ASSERT_EQ(run_program(folder, forward).code, 0);
  for (const char* input : {"--input /dev/stdin", "--input=/dev/fd/0"}) {
    const Outcome piped = run_command(
        folder, "{ cat batch.safetensors | " + program_word() +
                    "forward model --quiet --output piped.safetensors " + input + "; }");
    EXPECT_EQ(piped.code, 0) << piped.err;
    EXPECT_EQ(read_bytes(folder / "piped.safetensors"), read_bytes(folder / "out.safetensors"));
    std::filesystem::remove(folder / "piped.safetensors");
  }
}

TEST(Program, ReplacesNoFilesOfOthers) {
  const TemporaryFolder folder;
  furnish(folder);
  write_bytes(folder / "out.safetensors", "mine");
  const Outcome outcome = run_program(folder, forward);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "nystrom: out.safetensors: exists already; remove it, or give --output another name\n");
  write_bytes(folder / "report.html", "<!DOCTYPE html>\nmine");
  const Outcome report = run_program(folder, "report a b");
  EXPECT_EQ(report.err,
            "nystrom: report.html: exists and is no page of nystrom report; move it, or name "
            "another --output\n");
  std::filesystem::create_directory(folder / "study");
  write_bytes(folder / "study" / "matrices-errors.csv", "mine");
  const Outcome study = run_program(folder, "approximation matrices --output study");
  EXPECT_EQ(study.err,
            "nystrom: study/matrices-errors.csv: would be replaced, and belongs to no study of "
            "nystrom approximation; name another --output\n");
  EXPECT_EQ(read_bytes(folder / "study" / "matrices-errors.csv"), "mine");
}

TEST(Program, NamesAMissingTmpdir) {
  const TemporaryFolder folder;
  const TinyCheckpoint tiny(folder / "model");
  write_bytes(folder / "text.txt", "the sea\n");
  const Outcome outcome = run_command(
      folder, "TMPDIR=/absent/place " + program_word() + "evaluate model --quiet --text text.txt");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("/absent/place: cannot make a folder for temporary files: No such "
                             "file or directory; set TMPDIR to a folder with room\n"),
            std::string::npos)
      << outcome.err;
}

TEST(Program, ForwardWritesWhatRunForwardReturns) {
  const TemporaryFolder folder;
  furnish(folder);
  for (const auto& [flag, dtype] : {std::pair("f64", DType::f64), std::pair("f32", DType::f32),
                                    std::pair("bf16", DType::bf16)}) {
    SCOPED_TRACE(flag);
    const Outcome outcome = run_program(folder, std::string(forward) + "--grad --dtype " + flag);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out + outcome.err, "");
    auto written = read_tensors(folder / "out.safetensors");
    const auto model = load_model(model_folder(), read_model_config(model_folder(), {}), dtype,
                                  StoreMode::training);
    for (const auto& [name, tensor] :
         run_forward(*model, read_tensors(folder / "batch.safetensors"), true)) {
      ASSERT_TRUE(written.contains(name)) << name;
      EXPECT_EQ(written[name].dtype(), tensor.dtype()) << name;
      EXPECT_EQ(written[name].to_doubles(), tensor.to_doubles()) << name;
      written.erase(name);
    }
    EXPECT_TRUE(written.empty()) << "surplus: " << written.begin()->first;
  }
}

/// The input is features instead of ids, and the output is the last valid step.
TEST(Program, ForwardRunsASequenceBlock) {
  const TemporaryFolder folder;
  ModelConfig config = tiny_config();
  make_sequence_block(config);
  const auto model = make_model(config, DType::f32);
  std::filesystem::create_directory(folder / "block");
  write_bytes(folder / "block" / "config.json", hf_config_text(config));
  write_safetensors(folder / "block" / "model.safetensors", weight_tensors(*model));
  const NamedTensors batch = {
      {"features", random_normal({2, 4, 5}, 1).cast(DType::f32)},
      {"attention_mask", Tensor::from(std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 0, 0}, {2, 4})},
      {"loss_weights", random_normal({2, 6}, 2).cast(DType::f32)}};
  std::vector<NamedTensor> written;
  for (const auto& [name, tensor] : batch) written.push_back({name, tensor});
  write_safetensors(folder / "batch.safetensors", written);
  const Outcome outcome = run_program(
      folder, "forward block --quiet --input batch.safetensors --output out.safetensors --grad");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const NamedTensors out = read_tensors(folder / "out.safetensors");
  EXPECT_EQ(out.at("output").shape(), Shape({2, 6}));
  const std::vector<double> states = out.at("last_hidden_state").to_doubles(),
                            last = out.at("output").to_doubles();
  for (std::size_t j = 0; j < 6; ++j) {
    EXPECT_EQ(last[j], states[3 * 6 + j]);
    EXPECT_EQ(last[6 + j], states[(4 + 1) * 6 + j]);
  }
  EXPECT_TRUE(out.contains("loss"));
  EXPECT_NE(run_program(folder, "forward --help").out.find("features [b, n, width]"),
            std::string::npos);
}

TEST(Program, ForwardAnnouncesSemanticsUnlessQuiet) {
  const TemporaryFolder folder;
  furnish(folder);
  const Outcome outcome =
      run_program(folder, "forward model --input batch.safetensors --output out.safetensors");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, semantics_notice(read_model_config(model_folder(), {})) + "\n");
}

TEST(Program, InfoCountsParameters) {
  const TemporaryFolder folder;
  furnish(folder);
  const std::filesystem::path yaml = source_folder() / "configs" / "base.yaml";
  const std::pair<std::filesystem::path, ModelConfig> targets[] = {
      {model_folder(), read_model_config(model_folder(), {})},
      {yaml, read_run(config_file(yaml.string())).options.model},
  };
  for (const auto& [target, config] : targets) {
    SCOPED_TRACE(target);
    const std::int64_t count = Model(config).parameters().count();
    const Outcome text = run_program(folder, "info '" + target.string() + "'");
    ASSERT_EQ(text.code, 0) << text.err;
    EXPECT_NE(text.out.find("\nparameters: " + std::to_string(count) + " ("), std::string::npos)
        << text.out;
    const Outcome json = run_program(folder, "info --json '" + target.string() + "'");
    ASSERT_EQ(json.code, 0) << json.err;
    const auto info = nlohmann::json::parse(json.out);
    EXPECT_EQ(info.at("parameters").get<std::int64_t>(), count);
    std::int64_t sum = 0;
    for (const auto& part : info.at("parameters_by_part")) sum += part.get<std::int64_t>();
    EXPECT_EQ(sum, count) << "the parts are all of it";
    const bool run = target.extension() == ".yaml";
    EXPECT_EQ(text.out.find("\nmemory:\n  weights ") != std::string::npos, run) << text.out;
    ASSERT_EQ(info.contains("memory"), run);
    if (run) {
      EXPECT_GT(info.at("memory").at("total").get<std::int64_t>(), 18 * count)
          << "weights, exact weights, gradients, moments";
    }
  }
}

TEST(Program, BenchPrintsOneObject) {
  const TemporaryFolder folder;
  for (const std::string mode : {"train", "forward"}) {
    SCOPED_TRACE(mode);
    const Outcome outcome = run_program(folder,
                                        "bench --layers 1 --hidden 8 --heads 2 --landmarks 2 "
                                        "--length 8 --batch 2 --vocab 20 --conv 3 "
                                        "--steps 3 --dtype bf16 --json --mode " +
                                            mode);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto result = nlohmann::json::parse(outcome.out);
    for (const char* key : {"median_step_seconds", "tokens_per_second", "peak_memory_bytes",
                            "flops_per_step", "product_flops_per_second", "share_of_limit"}) {
      EXPECT_GT(result.at(key).get<double>(), 0) << key;
    }
    EXPECT_EQ(result.at("step_seconds").size(), 3U);
    EXPECT_EQ(result.at("losses").size(), mode == "train" ? 3U : 0U);
    EXPECT_EQ(result.at("settings").at("mode"), mode);
    EXPECT_EQ(result.at("settings").at("hidden"), 8);
  }
}

TEST(Program, BenchTimesSeveralLengthsInOneProcess) {
  const TemporaryFolder folder;
  const std::string small =
      "bench --layers 1 --hidden 8 --heads 2 --landmarks 2 --vocab 20 --conv 3 --json ";
  const Outcome outcome =
      run_program(folder, small + "--length 8 4 --tokens 16 --warmup 1 --steps 2 --profile");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  for (const int length : {8, 4}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const auto result = nlohmann::json::parse(line);
    EXPECT_EQ(result.at("settings").at("length"), length);
    EXPECT_EQ(result.at("settings").at("batch"), 16 / length);
    EXPECT_EQ(result.at("step_seconds").size(), 2U) << "the first is not counted";
    EXPECT_GT(result.at("copy_bytes_per_second").get<double>(), 0);
    bool has_layer = false;
    for (const auto& kernel : result.at("kernels"))
      has_layer = has_layer || (kernel.at("name") == "matmul f32 16×8×8" &&
                                kernel.at("calls") >= 4 && kernel.at("seconds") > 0);
    EXPECT_TRUE(has_layer) << result.at("kernels");
  }
  EXPECT_NE(run_program(folder, small + "--length 8 --tokens 12").err.find("no multiple"),
            std::string::npos);
  EXPECT_NE(run_program(folder, small + "--products").err.find("--device cuda"), std::string::npos);
}

double seconds_of_children() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The documents promise 20 ms, and the test prints the measured time. The limit is five times
/// higher, because the machine may be busy or the build instrumented.
TEST(Program, HelpHasAnExampleAndIsQuick) {
  const TemporaryFolder folder;
  const std::string commands[] = {"doctor",
                                  "config",
                                  "check",
                                  "prepare",
                                  "pretrain",
                                  "finetune",
                                  "evaluate",
                                  "predict",
                                  "export",
                                  "extend",
                                  "convert",
                                  "listops",
                                  "info",
                                  "forward",
                                  "bench",
                                  "approximation",
                                  "approximation matrices",
                                  "approximation model",
                                  "approximation cost",
                                  "report"};
  for (const std::string& command : commands) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double before = seconds_of_children();
      const Outcome outcome = run_program(folder, command + " --help");
      best = std::min(best, seconds_of_children() - before);
      EXPECT_EQ(outcome.code, 0);
      EXPECT_EQ(outcome.err, "");
      EXPECT_NE(outcome.out.find("\n  nystrom " + command), std::string::npos)
          << "no example of " << command;
    }
    RecordProperty(command + "_help_microseconds", static_cast<int>(best * 1e6));
    if (!sanitized) {
      EXPECT_LT(best, 0.1) << command;
    }
  }
}

TEST(Program, TellsItsVersion) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder, "--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  const std::regex expected("nystrom " NYSTROM_VERSION
                            "\ncommit   (unknown|[0-9a-f]{12}(-dirty)?)\n"
                            "vectors  (baseline|avx2|avx512|avx512_bf16|amx)\n"
                            "CUDA     (not in this build|[0-9.]+; .+)\n");
  EXPECT_TRUE(std::regex_match(outcome.out, expected)) << outcome.out;
}

}  // namespace
}  // namespace nystrom::testing
