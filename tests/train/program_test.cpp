// The built program from outside: results, one-line messages, exit codes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/fixtures.h"
#include "tests/train/run_program.h"
#include "train/config_io.h"
#include "train/forward.h"
#include "train/model_folder.h"

namespace nystrom::testing {
namespace {

std::filesystem::path model_folder() { return fixture_folder() / "hf" / "mlm_exact_padded"; }

/// A folder with links to a fixture (`model`, `batch.safetensors`) and broken copies of it.
void furnish(const TemporaryFolder& folder) {
  namespace fs = std::filesystem;
  fs::create_directory_symlink(model_folder(), folder / "model");
  fs::copy_file(model_folder() / "batch.safetensors", folder / "batch.safetensors");
  for (const char* name : {"weightless", "truncated", "occupied"}) fs::create_directory(folder / name);
  for (const char* name : {"weightless", "truncated"}) fs::copy_file(model_folder() / "config.json", folder / name / "config.json");
  const std::string weights = read_bytes(model_folder() / "model.safetensors");
  write_bytes(folder / "truncated" / "model.safetensors", weights.substr(0, weights.size() - 1));
}

std::vector<std::string> contents(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Case {
  const char* name;
  const char* arguments;
  const char* message;  // after "nystrom: "
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }  // NOLINT: GoogleTest's name

#define FORWARD "forward model --quiet --input batch.safetensors --output out.safetensors "

const Case cases[] = {
    {"no_command", "", "no command given; expected one of doctor, config, check, prepare, pretrain, evaluate, predict, export, info, forward, bench; see nystrom --help"},
    {"unknown_command", "forwrd",
     "unknown command forwrd; did you mean 'forward'?; expected one of doctor, config, check, prepare, pretrain, evaluate, predict, export, info, forward, bench; see nystrom --help"},
    {"unknown_option_of_program", "--bogus", "unknown option --bogus; see nystrom --help"},
    {"unknown_shell", "--completion zsh", "--completion zsh: unknown shell; expected bash"},
    {"no_shell", "--completion", "--completion: 1 required {bash} missing; see nystrom --help"},
    {"unknown_option_with_a_value", "--bogus=1", "unknown option --bogus; see nystrom --help"},
    {"nothing_to_show", "config",
     "config needs exactly one of RECIPE, --list, --explain KEY, --schema, --markdown; got 0; see nystrom config --help"},
    {"two_things_to_show", "config small --list",
     "config needs exactly one of RECIPE, --list, --explain KEY, --schema, --markdown; got 2; see nystrom config --help"},
    {"unknown_recipe", "config smal",
     "unknown recipe smal; did you mean 'small'?; expected one of quickstart, small, base, base-1024, base-2048, base-4096"},
    {"unknown_key_to_explain", "config --explain training.batch_sise",
     "unknown option training.batch_sise; did you mean 'training.batch_size'?; nystrom config --markdown lists all"},
    {"unknown_option", FORWARD "--bogus", "unknown option --bogus; see nystrom forward --help"},
    {"misspelt_option", "forward model --inptu batch.safetensors --output o",
     "unknown option --inptu; did you mean '--input'?; see nystrom forward --help"},
    {"surplus_argument", "info model other", "unexpected argument other; see nystrom info --help"},
    {"no_model", "forward --input batch.safetensors --output o", "MODEL is required; see nystrom forward --help"},
    {"no_input", "forward model --output o", "--input is required; see nystrom forward --help"},
    {"type", FORWARD "--dtype f16", "--dtype: f16 not in {f32,bf16,f64}; see nystrom forward --help"},
    {"no_folder", "forward absent --input batch.safetensors --output o",
     "absent: no such folder; expected a Hugging Face folder, a run directory or a checkpoint"},
    {"no_folder_of_info", "info absent",
     "absent: no such folder; expected a Hugging Face folder, a run directory or a checkpoint"},
    {"no_yaml", "info absent.yaml", "absent.yaml: cannot open: No such file or directory"},
    {"no_config", "info occupied", "occupied/config.json: cannot open: No such file or directory"},
    {"no_weights", "forward weightless --quiet --input batch.safetensors --output o",
     "weightless: has neither model.safetensors nor model.safetensors.index.json"},
    {"truncated_weights", "forward truncated --quiet --input batch.safetensors --output o",
     "truncated/model.safetensors: tensor nystromformer.encoder.layer.1.output.dense.weight ends at byte 20640 of the data, but "
     "the file has only 20639: it is cut short"},
    {"no_batch", "forward model --quiet --input absent.safetensors --output o",
     "absent.safetensors: cannot open: No such file or directory"},
    {"no_output_folder", "forward model --quiet --input batch.safetensors --output absent/o",
     "absent/o: cannot create: No such file or directory"},
    {"output_is_a_folder", "forward model --quiet --input batch.safetensors --output occupied",
     "occupied: cannot rename into place: Is a directory"},
    {"unknown_device", FORWARD "--device tpu", "--device tpu: unknown device; expected cpu, cuda or cuda:N"},
    {"unknown_key", FORWARD "--set model.attention.landmarks=3",
     "--set model.attention.landmarks=3: unknown key 'model.attention.landmarks'; expected one of kind, semantics, num_landmarks, "
     "landmark_source, inverse, inverse_iterations, conv_kernel_size"},
    {"no_key", FORWARD "--set foo", "--set foo: expected key=value, such as optimizer.learning_rate=3e-4"},
    {"bench_heads", "bench --hidden 100 --heads 12",
     "the model cannot be built: hidden_size 100 is not divisible by num_attention_heads 12; each head takes an equal share of the width"},
    {"bench_convolution", "bench --conv 4",
     "the model cannot be built: attention.conv_kernel_size is 4; expected an odd whole number at least 1"},
    {"bench_steps", "bench --steps 0", "--steps: Value 0 not in range 1 to 2147483648; see nystrom bench --help"},
};

class BadInput : public ::testing::TestWithParam<Case> {};

TEST_P(BadInput, EndsInOneLineAndCode2AndLeavesNothing) {
  const TemporaryFolder folder;
  furnish(folder);
  const auto before = contents(folder);
  const Outcome outcome = run_program(folder, GetParam().arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, std::string("nystrom: ") + GetParam().message + "\n");
  EXPECT_EQ(contents(folder), before);
}

INSTANTIATE_TEST_SUITE_P(All, BadInput, ::testing::ValuesIn(cases), [](const auto& test) { return std::string(test.param.name); });

/// A build without CUDA says so.
TEST(Program, RefusesAGpuThatItWasNotBuiltFor) {
  const TemporaryFolder folder;
  furnish(folder);
  const Outcome outcome = run_program(folder, FORWARD "--device cuda");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "nystrom: --device cuda: this build of nystrom has no CUDA support; use --device cpu\n");
}

TEST(Program, ForwardWritesWhatRunForwardReturns) {
  const TemporaryFolder folder;
  furnish(folder);
  for (const auto& [flag, dtype] : {std::pair("f64", DType::f64), std::pair("f32", DType::f32), std::pair("bf16", DType::bf16)}) {
    SCOPED_TRACE(flag);
    const Outcome outcome = run_program(folder, std::string(FORWARD "--grad --dtype ") + flag);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out + outcome.err, "");
    auto written = read_tensors(folder / "out.safetensors");
    const auto model = load_model(model_folder(), read_model_config(model_folder(), {}), dtype, StoreMode::training);
    for (const auto& [name, tensor] : run_forward(*model, read_tensors(folder / "batch.safetensors"), true)) {
      ASSERT_TRUE(written.contains(name)) << name;
      EXPECT_EQ(written[name].dtype(), tensor.dtype()) << name;
      EXPECT_EQ(written[name].to_doubles(), tensor.to_doubles()) << name;
      written.erase(name);
    }
    EXPECT_TRUE(written.empty()) << "surplus: " << written.begin()->first;
  }
}

TEST(Program, ForwardAnnouncesSemanticsUnlessQuiet) {
  const TemporaryFolder folder;
  furnish(folder);
  const Outcome outcome = run_program(folder, "forward model --input batch.safetensors --output out.safetensors");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, semantics_notice(read_model_config(model_folder(), {})) + "\n");
}

TEST(Program, InfoCountsParameters) {
  const TemporaryFolder folder;
  furnish(folder);
  const std::filesystem::path yaml = std::filesystem::path(NYSTROM_SOURCE_DIR) / "configs" / "base.yaml";
  const std::pair<std::filesystem::path, ModelConfig> targets[] = {
      {model_folder(), read_model_config(model_folder(), {})},
      {yaml, read_config(yaml.string(), {}).model},
  };
  for (const auto& [target, config] : targets) {
    SCOPED_TRACE(target);
    const std::int64_t count = Model(config).parameters().count();
    const Outcome text = run_program(folder, "info '" + target.string() + "'");
    ASSERT_EQ(text.code, 0) << text.err;
    EXPECT_NE(text.out.find("\nparameters: " + std::to_string(count) + " ("), std::string::npos) << text.out;
    const Outcome json = run_program(folder, "info --json '" + target.string() + "'");
    ASSERT_EQ(json.code, 0) << json.err;
    const auto info = nlohmann::json::parse(json.out);
    EXPECT_EQ(info.at("parameters").get<std::int64_t>(), count);
    std::int64_t sum = 0;
    for (const auto& part : info.at("parameters_by_part")) sum += part.get<std::int64_t>();
    EXPECT_EQ(sum, count) << "the parts are all of it";
  }
}

TEST(Program, BenchPrintsOneObject) {
  const TemporaryFolder folder;
  for (const std::string mode : {"train", "forward"}) {
    SCOPED_TRACE(mode);
    const Outcome outcome = run_program(folder,
                                        "bench --layers 1 --hidden 8 --heads 2 --landmarks 2 --length 8 --batch 2 --vocab 20 --conv 3 "
                                        "--steps 3 --dtype bf16 --json --mode " +
                                            mode);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto result = nlohmann::json::parse(outcome.out);
    for (const char* key : {"median_step_seconds", "tokens_per_second", "peak_memory_bytes", "flops_per_step"}) {
      EXPECT_GT(result.at(key).get<double>(), 0) << key;
    }
    EXPECT_EQ(result.at("step_seconds").size(), 3U);
    EXPECT_EQ(result.at("losses").size(), mode == "train" ? 3U : 0U);
    EXPECT_EQ(result.at("settings").at("mode"), mode);
    EXPECT_EQ(result.at("settings").at("hidden"), 8);
  }
}

double seconds_of_children() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Promised: 20 ms (the measured time is printed); five times that here, for the machine may be busy or the build instrumented.
TEST(Program, HelpHasAnExampleAndIsQuick) {
  const TemporaryFolder folder;
  const std::string commands[] = {"doctor", "config", "check", "prepare", "pretrain", "evaluate", "predict", "export", "info", "forward", "bench"};
  for (const std::string& command : commands) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double before = seconds_of_children();
      const Outcome outcome = run_program(folder, command + " --help");
      best = std::min(best, seconds_of_children() - before);
      EXPECT_EQ(outcome.code, 0);
      EXPECT_EQ(outcome.err, "");
      EXPECT_NE(outcome.out.find("\n  nystrom " + command), std::string::npos) << "no example of " << command;
    }
    RecordProperty(command + "_help_microseconds", static_cast<int>(best * 1e6));
    EXPECT_LT(best, 0.1) << command;
  }
}

TEST(Program, TellsItsVersion) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder, "--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with("nystrom ")) << outcome.out;
}

}  // namespace
}  // namespace nystrom::testing
