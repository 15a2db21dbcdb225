// The built program as users run it: results, one-line messages, exit codes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/support/fixtures.h"
#include "tests/support/models.h"
#include "tests/support/places.h"
#include "tests/support/program_test.h"
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

using Program = ProgramTest;

/// A build without CUDA gives a clear error.
TEST_F(Program, RefusesAGpuThatItWasNotBuiltFor) {
  furnish(folder_);
  expect_refused(std::string(forward) + "--device cuda",
                 "--device cuda: this build of nystrom has no CUDA support; use --device cpu");
}

TEST_F(Program, ReadsAPipeAsAFile) {
  furnish(folder_);
  run(forward);
  for (const char* input : {"--input /dev/stdin", "--input=/dev/fd/0"}) {
    succeeded(run_command(folder_, "{ cat batch.safetensors | " + program_word() +
                                       "forward model --quiet --output piped.safetensors " + input +
                                       "; }"));
    EXPECT_EQ(read_bytes(folder_ / "piped.safetensors"), read_bytes(folder_ / "out.safetensors"));
    std::filesystem::remove(folder_ / "piped.safetensors");
  }
}

TEST_F(Program, ReplacesNoFilesOfOthers) {
  furnish(folder_);
  write_bytes(folder_ / "out.safetensors", "mine");
  expect_refused(forward,
                 "out.safetensors: exists already; remove it, or give --output another name");
  write_bytes(folder_ / "report.html", "<!DOCTYPE html>\nmine");
  expect_refused(
      "report a b",
      "report.html: exists and is no page of nystrom report; move it, or name another --output");
  write_bytes(folder_ / "study" / "matrices-errors.csv", "mine");
  expect_refused("approximation matrices --output study",
                 "study/matrices-errors.csv: would be replaced, and belongs to no study of nystrom "
                 "approximation; name another --output");
  EXPECT_EQ(read_bytes(folder_ / "study" / "matrices-errors.csv"), "mine");
}

TEST_F(Program, ReplacesNoLinks) {
  furnish(folder_);
  for (const auto& [link, command] :
       {std::pair("out.safetensors", std::string(forward)),
        {"report.html", "report a b"},
        {"study/matrices.json", "approximation matrices --output study"}}) {
    std::filesystem::create_directories((folder_ / link).parent_path());
    std::filesystem::create_symlink("elsewhere", folder_ / link);
    expect_refused(command, std::string(link) +
                                ": is a symbolic link, which is not followed here; put what it "
                                "names in its place");
  }
}

TEST_F(Program, NamesAnUnusableTmpdir) {
  const TinyCheckpoint tiny(folder_ / "model");
  write_bytes(folder_ / "text.txt", "the sea\n");
  for (const auto& [place, cause] : {std::pair("/absent/place", "No such file or directory"),
                                     std::pair("text.txt", "Not a directory")})
    expect_says(refused(run_command(folder_, "TMPDIR=" + std::string(place) + " " + program_word() +
                                                 "evaluate model --quiet --text text.txt")),
                fmt::format("{}: cannot make a folder for temporary files: {}; set TMPDIR to a "
                            "folder with room\n",
                            place, cause));
}

TEST_F(Program, ForwardWritesWhatRunForwardReturns) {
  furnish(folder_);
  for (const auto& [flag, dtype] : {std::pair("f64", DType::f64), std::pair("f32", DType::f32),
                                    std::pair("bf16", DType::bf16)}) {
    SCOPED_TRACE(flag);
    run(std::string(forward) + "--grad --dtype " + flag);
    EXPECT_EQ(last_.out + last_.err, "");
    auto written = read_tensors(folder_ / "out.safetensors");
    const auto model = load_model(ModelFolder(model_folder()), dtype, StoreMode::training);
    for (const auto& [name, tensor] :
         run_forward(*model, read_tensors(folder_ / "batch.safetensors"), true)) {
      ASSERT_TRUE(written.contains(name)) << name;
      EXPECT_EQ(written[name].dtype(), tensor.dtype()) << name;
      EXPECT_EQ(written[name].to_doubles(), tensor.to_doubles()) << name;
      written.erase(name);
    }
    EXPECT_TRUE(written.empty()) << "surplus: " << written.begin()->first;
  }
}

/// The input is features instead of ids, and the output is the last valid step.
TEST_F(Program, ForwardRunsASequenceBlock) {
  ModelConfig config = tiny_config();
  make_sequence_block(config);
  const auto model = make_model(config, DType::f32);
  write_bytes(folder_ / "block" / "config.json", hf_config_text(config));
  write_safetensors(folder_ / "block" / "model.safetensors", weight_tensors(*model));
  const NamedTensors batch = {
      {"features", random_normal({2, 4, 5}, 1).cast(DType::f32)},
      {"attention_mask", Tensor::from(std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 0, 0}, {2, 4})},
      {"loss_weights", random_normal({2, 6}, 2).cast(DType::f32)}};
  std::vector<NamedTensor> written;
  for (const auto& [name, tensor] : batch) written.push_back({name, tensor});
  write_safetensors(folder_ / "batch.safetensors", written);
  run("forward block --quiet --input batch.safetensors --output out.safetensors --grad");
  const NamedTensors out = read_tensors(folder_ / "out.safetensors");
  EXPECT_EQ(out.at("output").shape(), Shape({2, 6}));
  const std::vector<double> states = out.at("last_hidden_state").to_doubles(),
                            last = out.at("output").to_doubles();
  for (std::size_t j = 0; j < 6; ++j) {
    EXPECT_EQ(last[j], states[3 * 6 + j]);
    EXPECT_EQ(last[6 + j], states[(4 + 1) * 6 + j]);
  }
  EXPECT_TRUE(out.contains("loss"));
  expect_says(run("forward --help").out, "features [b, n, width]");
}

TEST_F(Program, ForwardAnnouncesSemanticsUnlessQuiet) {
  furnish(folder_);
  EXPECT_EQ(run("forward model --input batch.safetensors --output out.safetensors").err,
            semantics_notice(ModelFolder(model_folder()).config) + "\n");
}

TEST_F(Program, InfoCountsParameters) {
  furnish(folder_);
  const std::filesystem::path yaml = source_folder() / "configs" / "base.yaml";
  const std::pair<std::filesystem::path, ModelConfig> targets[] = {
      {model_folder(), ModelFolder(model_folder()).config},
      {yaml, read_run(config_file(yaml.string())).options.model},
  };
  for (const auto& [target, config] : targets) {
    SCOPED_TRACE(target);
    const std::int64_t count = Model(config).parameters().count();
    const std::string text = run("info '" + target.string() + "'").out;
    expect_says(text, "\nparameters: " + std::to_string(count) + " (");
    const auto info = nlohmann::json::parse(run("info --json '" + target.string() + "'").out);
    EXPECT_EQ(info.at("parameters").get<std::int64_t>(), count);
    std::int64_t sum = 0;
    for (const auto& part : info.at("parameters_by_part")) sum += part.get<std::int64_t>();
    EXPECT_EQ(sum, count) << "the parts are all of it";
    const bool is_run = target.extension() == ".yaml";
    EXPECT_EQ(text.find("\nmemory:\n  weights ") != std::string::npos, is_run) << text;
    ASSERT_EQ(info.contains("memory"), is_run);
    if (is_run) {
      EXPECT_GT(info.at("memory").at("total").get<std::int64_t>(), 18 * count)
          << "weights, exact weights, gradients, moments";
    }
  }
}

TEST_F(Program, BenchPrintsOneObject) {
  for (const std::string mode : {"train", "forward"}) {
    SCOPED_TRACE(mode);
    run("bench --layers 1 --hidden 8 --heads 2 --landmarks 2 --length 8 --batch 2 --vocab 20 "
        "--conv 3 --steps 3 --dtype bf16 --json --mode " +
        mode);
    const auto result = nlohmann::json::parse(last_.out);
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

TEST_F(Program, BenchTimesSeveralLengthsInOneProcess) {
  const std::string small =
      "bench --layers 1 --hidden 8 --heads 2 --landmarks 2 --vocab 20 --conv 3 --json ";
  run(small + "--length 8 4 --tokens 16 --warmup 1 --steps 2 --profile");
  std::istringstream lines(last_.out);
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
  expect_says(refusal(small + "--length 8 --tokens 12"), "no multiple");
  expect_says(refusal(small + "--products"), "--device cuda");
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
TEST_F(Program, HelpHasAnExampleAndIsQuick) {
  std::vector<std::string> commands = {"approximation matrices", "approximation model",
                                       "approximation cost"};
  std::istringstream help(run("--help").out);
  std::string line;
  while (std::getline(help, line) && line != "Subcommands:") continue;
  while (std::getline(help, line) && line.starts_with("  "))
    commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  EXPECT_GE(commands.size(), 21U);
  for (const std::string& command : commands) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double before = seconds_of_children();
      run(command + " --help");
      best = std::min(best, seconds_of_children() - before);
      EXPECT_EQ(last_.err, "");
      expect_says(last_.out, "\n  nystrom " + command, "an example");
    }
    RecordProperty(command + "_help_microseconds", static_cast<int>(best * 1e6));
    if (!sanitized) {
      EXPECT_LT(best, 0.1) << command;
    }
  }
}

TEST_F(Program, TellsItsVersion) {
  EXPECT_EQ(run("--version").err, "");
  const std::regex expected("nystrom " NYSTROM_VERSION
                            "\ncommit   (unknown|[0-9a-f]{12}(-dirty)?)\n"
                            "vectors  (baseline|avx2|avx512|avx512_bf16|amx)\n"
                            "CUDA     (not in this build|[0-9.]+; .+)\n");
  EXPECT_TRUE(std::regex_match(last_.out, expected)) << last_.out;
}

}  // namespace
}  // namespace nystrom::testing
