// Complete pretraining with the program: killed runs end in the same bits, signals leave a
// checkpoint, changed settings are rejected.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/support/places.h"
#include "tests/support/program_test.h"
#include "tests/support/rounds.h"
#include "tests/support/small_text.h"
#include "tests/support/temporary_folder.h"
#include "train/objectives/cache.h"
#include "train/objectives/fill_mask.h"
#include "train/state/checkpoint.h"
#include "train/state/run_folder.h"
#include "train/state/safetensors.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class PretrainTest : public ProgramTest {
 protected:
  void SetUp() override {
    write_small_run(folder_,
                    "optimizer: {learning_rate: 1.0e-3}\n"
                    "schedule: {warmup_steps: 5}\n"
                    "training: {steps: 60, batch_size: 8, micro_batch_size: 4, dtype: bf16}\n"
                    "evaluation: {every: 20}\n"
                    "checkpoint: {every: 6, keep: 2}\n");
  }

  /// A run on one thread.
  static std::string words(const std::string& run_dir,
                           const std::string& more = "training.steps=60") {
    return "pretrain run.yaml --threads 1 --set run_dir=" + run_dir + " --set '" + more + "'";
  }
  /// Starts a run, whose messages go to the file `log`.
  pid_t start(const std::string& run_dir, const std::string& more = "training.steps=60") {
    return start_command(folder_, program_word() + words(run_dir, more));
  }
  void train(const std::string& run_dir, const std::string& more = "training.steps=60",
             Caller caller = Caller::here()) {
    run(words(run_dir, more), caller);
  }

  std::string checksum(const std::string& run_dir, const std::string& file) {
    return file_checksum(folder_ / run_dir / "checkpoints" / "step-60" / file);
  }

  /// A text that changes when the run makes progress.
  std::string progress(const std::string& run_dir) {
    std::string text;
    for (const char* file : {"metrics.jsonl", "checkpoints/latest"})
      if (const fs::path path = folder_ / run_dir / file; fs::exists(path))
        text += read_bytes(path);
    return text;
  }

  /// The newest checkpoint that a reader finds, or 0.
  std::int64_t newest(const std::string& run_dir) {
    std::vector<std::string> passed_over;
    return newest_checkpoint(folder_ / run_dir / "checkpoints", passed_over).value_or(0);
  }
  /// The step at which a start resumed, by its messages; 0 for a new run. Nothing when the start
  /// did not get that far.
  static std::optional<std::int64_t> resumed_at(const std::string& log) {
    const std::string words = "resuming at step ";
    const std::size_t at = log.find(words);
    if (at != std::string::npos) return std::stoll(log.substr(at + words.size()));
    return log.find(" parameters on ") == std::string::npos ? std::nullopt
                                                            : std::optional<std::int64_t>(0);
  }
};

TEST_F(PretrainTest, ThreadsThatAreRefusedLeaveNoWorkUndone) {
  const auto weights = [&](const std::string& run_dir, const std::string& environment,
                           unsigned threads) {
    succeeded(run_command(folder_, environment + " " + program_word() +
                                       "pretrain run.yaml --set training.steps=6 --threads " +
                                       std::to_string(threads) + " --set run_dir=" + run_dir));
    return file_checksum(folder_ / run_dir / "checkpoints/step-6/model.safetensors");
  };
  /// Dynamic teams have at most one thread for each core.
  EXPECT_EQ(weights("limited", "OMP_THREAD_LIMIT=1", 4), weights("alone", "", 1));
  const unsigned many = 2 * std::thread::hardware_concurrency();
  EXPECT_EQ(weights("dynamic", "OMP_DYNAMIC=true", many), weights("static", "", many));
}

/// Two runs with the same seed: one records every step, the other every fifth.
TEST_F(PretrainTest, RecordsAndLinesTellTheMeansSinceTheLastOne) {
  train("each", "logging.every=1");
  train("fifth", "logging.every=5");
  const auto each = metric("each", "loss"), means = metric("fifth", "mean_loss");
  const auto accuracies = metric("each", "accuracy"),
             mean_accuracies = metric("fifth", "mean_accuracy");
  ASSERT_EQ(each.size(), 60u);
  ASSERT_EQ(means.size(), 12u);
  EXPECT_EQ(each, metric("each", "mean_loss")) << "since the last record there was one step";
  for (std::size_t i = 0; i < means.size(); ++i) {
    const auto mean_of = [&](const std::vector<double>& values) {
      return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(5 * i),
                             values.begin() + static_cast<std::ptrdiff_t>(5 * i + 5), 0.0) /
             5;
    };
    EXPECT_NEAR(means[i], mean_of(each), 1e-12);
    EXPECT_NEAR(mean_accuracies[i], mean_of(accuracies), 1e-12);
    char shown[32];
    std::snprintf(shown, sizeof shown, "loss %.4f,", means[i]);
    expect_says(read_bytes(folder_ / "fifth" / "log.txt"),
                "step " + std::to_string(5 * i + 5) + "/60 [");
    expect_says(read_bytes(folder_ / "fifth" / "log.txt"), shown);
  }
}

TEST_F(PretrainTest, EveryStepAndEvaluationIsRecordedOnceWhenARunGoesOn) {
  for (const std::string steps : {"40", "60"})
    train("run", "logging.every=1' --set 'training.steps=" + steps);
  EXPECT_EQ(metric("run", "loss").size(), 60U);
  EXPECT_EQ(metric("run", "validation_loss").size(), 3U);
}

/// A tokenizer in the cache has the length of the run that trained it.
TEST_F(PretrainTest, RunsOfTwoLengthsShareATokenizerAndGoOn) {
  train("short", "data.sequence_length=16");
  train("long");
  expect_hides(last_.err, "training a tokenizer");
  const std::string whole = checksum("long", "model.safetensors");
  fs::remove_all(folder_ / "long" / "checkpoints" / "step-60");
  train("long");
  EXPECT_GT(resumed_at(last_.err), 0);
  EXPECT_EQ(checksum("long", "model.safetensors"), whole);
}

TEST_F(PretrainTest, ATokenizerOfOtherPiecesThanTheWeightsIsRefused) {
  train("first");
  train("other", "tokenizer.train.kind=bpe");
  train("same", "model.from=first' --set 'tokenizer.path=first");
  expect_says(refusal(words("mixed", "model.from=first' --set 'tokenizer.path=other")),
              "to whose pieces the weights belong");
  EXPECT_FALSE(fs::exists(folder_ / "mixed"));
}

TEST_F(PretrainTest, KilledRunsEndInTheSameBits) {
  train("straight");
  std::minstd_rand random(7);
  const int wanted = 200 * test_rounds();
  int kills = 0, while_training = 0;
  for (int attempt = 0; attempt < 4 * wanted && kills < wanted; ++attempt) {
    const std::string before = progress("killed");
    const std::int64_t saved = newest("killed");
    fs::remove(folder_ / "log");  // a process that is killed at once writes no log
    const pid_t process = start("killed");
    // Some kills come as early as the first line of main, and the others after progress of the run.
    // A run that reached its end starts again.
    for (int i = 0; attempt % 4 != 0 && i < 2000 && progress("killed") == before; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(
        milliseconds(std::uniform_int_distribution(0, attempt % 4 ? 50 : 150)(random)));
    ::kill(process, SIGKILL);
    const int code = outcome(process);
    kills += code == -SIGKILL;
    while_training += code == -SIGKILL && progress("killed") != before;
    ASSERT_TRUE(code == 0 || code == -SIGKILL) << read_bytes(folder_ / "log");
    const auto resumed = resumed_at(read_bytes(folder_ / "log"));
    ASSERT_GE(resumed.value_or(saved), saved) << read_bytes(folder_ / "log");
    if (code == 0) fs::remove_all(folder_ / "killed");
  }
  EXPECT_EQ(kills, wanted);
  EXPECT_GT(while_training, wanted / 4);
  train("killed");
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(checksum("killed", file), checksum("straight", file)) << file;
  for (const auto& entry : fs::directory_iterator(folder_ / "killed" / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "latest" || name == "step-60" || name == "step-54")
        << "left over: " << name;
  }
}

TEST_F(PretrainTest, ACopyThatLeavesThePlateauEndsAsAShorterRun) {
  std::string text = read_bytes(folder_ / "run.yaml");
  const std::string plain = "{warmup_steps: 5}";
  text.replace(text.find(plain), plain.size(), "{warmup_steps: 5, decay: wsd}");
  std::ofstream(folder_ / "run.yaml") << text;
  ASSERT_EQ(ended_at(start("plateau", "training.steps=6000"),
                     folder_ / "plateau/checkpoints/step-12", SIGTERM),
            130)
      << read_bytes(folder_ / "log");
  fs::copy(folder_ / "plateau", folder_ / "branch", fs::copy_options::recursive);
  const std::int64_t left = newest("plateau"), steps = 2 * left;  // its decay has a tenth of them
  for (const char* run_dir : {"branch", "straight"}) {
    train(run_dir, "training.steps=" + std::to_string(steps));
    expect_hides(last_.err, "the learning rate rises");
  }
  const auto weights = [&](const char* run_dir) {
    return file_checksum(folder_ / run_dir / "checkpoints" / ("step-" + std::to_string(steps)) /
                         "model.safetensors");
  };
  EXPECT_EQ(weights("branch"), weights("straight"));
  train("branch", "training.steps=" + std::to_string(2 * steps));
  expect_says(last_.err,
              fmt::format("step {}: the learning rate rises to 0.001, where the run so far had ",
                          steps + 1));
}

TEST_F(PretrainTest, RecordsHowItFillsMasksAtEachEvaluation) {
  std::ofstream(folder_ / "run.yaml", std::ios::app)
      << "logging: {fill_masks: [\"the [MASK] and [MASK]\", \"" + std::string(200, 'a') +
             " [MASK]\"]}\n";
  train("once", "training.steps=40");
  train("once");
  const MaskSamples samples = read_mask_samples(folder_ / "once");
  EXPECT_EQ(samples.note, "");
  ASSERT_EQ(samples.texts, std::vector<std::string>{"the [MASK] and [MASK]"})
      << "the other one is too long for the model";
  expect_says(refusal("check run.yaml --set run_dir=new --set 'logging.fill_masks=[\"a [mask]\", "
                      "\"b [MASK]\"]'"),
              "logging.fill_masks: the text 'a [mask]' has no [MASK]; write it where a word is to "
              "be filled in");
  ASSERT_EQ(samples.steps.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(samples.steps[i].step, 20 * static_cast<std::int64_t>(i + 1));
    const auto& masks = samples.steps[i].texts.at(0);
    ASSERT_EQ(masks.size(), 2U);
    for (const auto& fills : masks) {
      ASSERT_EQ(fills.size(), 3U);
      EXPECT_GE(fills[0].score, fills[1].score);
    }
  }
}

TEST_F(PretrainTest, AnAverageOfTheWeightsGoesOnInTheSameBits) {
  const std::string ema = "training.ema=0.9";
  train("straight", ema);
  ended_at(start("killed", ema), folder_ / "killed/checkpoints/step-12", SIGKILL);
  train("killed", ema);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(checksum("killed", file), checksum("straight", file)) << file;
  // The average does not change training; the saved model is the average.
  train("plain");
  const std::string bias = "nystromformer.embeddings.LayerNorm.bias";
  const auto tensor = [&](const char* run_dir, const char* file, const std::string& name) {
    return TensorFile::open(folder_ / run_dir / "checkpoints" / "step-60" / file)
        .read(name)
        .to_doubles();
  };
  EXPECT_EQ(tensor("straight", "optimizer.safetensors", "weight." + bias),
            tensor("plain", "model.safetensors", bias));
  EXPECT_NE(tensor("straight", "model.safetensors", bias),
            tensor("plain", "model.safetensors", bias));
}

TEST_F(PretrainTest, LearnsTheOrderOfSegments) {
  train("run", "masking.sentence_order=true");
  const std::string metrics = read_bytes(folder_ / "run" / "metrics.jsonl");
  expect_says(metrics, "\"sentence_order_accuracy\":");
  expect_says(metrics, "\"validation_sentence_order_accuracy\":");
  const auto has_head = [&](const fs::path& folder) {
    return TensorFile::open(folder_ / folder / "model.safetensors")
        .contains("cls.seq_relationship.weight");
  };
  EXPECT_TRUE(has_head("run/checkpoints/step-60"));
  expect_says(run("evaluate run --text text.txt --json").out, "\"sentence_order_accuracy\":");
  run("export run whole --attention softmax");
  EXPECT_TRUE(has_head("whole")) << "of nystrom's own class";
  expect_says(run("export run out --attention softmax --format transformers").err,
              "the sentence-order head (cls.seq_relationship) is left out");
  expect_says(read_bytes(folder_ / "out" / "README.md"), "sentence-order head");
  EXPECT_FALSE(has_head("out"));
  run("predict out 'the [MASK] was calm'");
  // Training can start from a folder with the head without using it, and the reverse.
  train("without", "model.from=run");
  expect_says(last_.err, "unused: cls.seq_relationship.");
  expect_says(run("pretrain run.yaml --set run_dir=with --set model.from=without --set "
                  "masking.sentence_order=true")
                  .err,
              "fresh: cls.seq_relationship.weight");
}

TEST_F(PretrainTest, RecordsWhatItsAttentionDoes) {
  train("run", "logging={every: 10, attention_every: 4, attention_error_limit: 1.0e-9}");
  std::ifstream metrics(folder_ / "run" / "metrics.jsonl");
  std::vector<std::int64_t> watched;
  for (std::string line; std::getline(metrics, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("layer_0_attention_error")) continue;
    watched.push_back(record["step"]);
    EXPECT_GT(record["layer_0_attention_error"], 0);
    EXPECT_GT(record["layer_0_attention_entropy"], 0);
    EXPECT_GT(record["layer_0_inverse_residual"], 0);
    EXPECT_GT(record["layer_0_inverse_gradient"], 0);
  }
  EXPECT_EQ(watched,
            (std::vector<std::int64_t>{4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60}));
  const std::string log = read_bytes(folder_ / "run" / "log.txt"),
                    line = " layer 0: its attention differs by ";
  const std::size_t at = log.find(line);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(line, at + 1), std::string::npos) << "one line is enough";
  expect_hides(log, "warning", "an error of attention predicts no harm");
  expect_says(log, "; what that costs in loss: nystrom approximation model run TEXT\n");
  train("unwatched", "logging.attention_every=null");
  expect_hides(read_bytes(folder_ / "unwatched" / "metrics.jsonl"), "layer_0");
  EXPECT_EQ(checksum("unwatched", "model.safetensors"), checksum("run", "model.safetensors"));
}

TEST_F(PretrainTest, ASignalLeavesACheckpoint) {
  EXPECT_EQ(ended_at(start("stopped", "training.steps=100000"),
                     folder_ / "stopped/checkpoints/latest", SIGTERM),
            130);
  expect_says(read_bytes(folder_ / "log"), "nystrom: stopped after step ");
}

/// The signal comes while the tokenizer is trained, or while text is converted to tokens.
TEST_F(PretrainTest, ASignalWhileTextIsPreparedLeavesNothing) {
  std::ofstream text(folder_ / "text.txt");
  std::minstd_rand random(1);
  for (int word = 0; word < 600000; ++word) text << random() % 200000 << (word % 10 ? ' ' : '\n');
  text.close();
  const std::string prepare =
      program_word() + "prepare run.yaml --threads 1 --set tokenizer.train.vocab_size=2000";
  for (const std::string part : {"tokenizer-", "tokens-"}) {
    const auto begun = [&] {
      if (!fs::exists(folder_ / "cache")) return false;
      for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(part) && name.find(".tmp-") != std::string::npos) return true;
      }
      return false;
    };
    const pid_t process = start_command(folder_, prepare);
    for (int i = 0; i < 60000 && !begun(); ++i) std::this_thread::sleep_for(milliseconds(1));
    ::kill(process, SIGTERM);
    EXPECT_EQ(outcome(process), 130) << read_bytes(folder_ / "log");
    expect_says(read_bytes(folder_ / "log"),
                "nystrom: stopped during preparation of the text; the same command continues with "
                "the finished part\n");
    EXPECT_FALSE(begun());
  }
}

TEST_F(PretrainTest, TakesATokenizerOfAnyKind) {
  const fs::path tokenizer = source_folder() / "tests/fixtures/tokenizers/small/byte_level";
  train("run", "tokenizer.path=" + tokenizer.string() + "' --set 'tokenizer.train.vocab_size=null");
  const fs::path checkpoint = folder_ / "run" / "checkpoints" / "step-60";
  EXPECT_EQ(open_tokenizer(checkpoint)->encode("the <mask> was", SpecialNames::tokens),
            open_tokenizer(tokenizer)->encode("the <mask> was", SpecialNames::tokens));
  EXPECT_EQ(read_json_file(checkpoint / "config.json")["vocab_size"], 501);
  EXPECT_EQ(read_json_file(checkpoint / "config.json")["pad_token_id"], 1);
  run("predict run 'the <mask> was calm' --top-k 2 --json");
  EXPECT_EQ(nlohmann::json::parse(last_.out).size(), 2u);
  run("evaluate run --text text.txt --json");
}

TEST_F(PretrainTest, ATokenizerWithoutMaskIsRefused) {
  write_bytes(folder_ / "tokenizer/vocab.json", R"({"a": 0, "<|endoftext|>": 1})");
  write_bytes(folder_ / "tokenizer/merges.txt", "#version: 0.2\n");
  expect_refused(words("run", "tokenizer.path=tokenizer"),
                 "tokenizer.path: the tokenizer has no cls token; masked language models need cls, "
                 "sep, pad and "
                 "mask: name it as cls_token in tokenizer_config.json");
}

TEST_F(PretrainTest, TheSameTextByAnotherNameGoesOn) {
  std::ofstream(folder_ / "text.txt", std::ios::app) << "\nthe sea was calm\n";  // a blank line
  train("run", "training.steps=6");
  run(words("run", "training.steps=12") + " --set 'data.train=[./text.txt]'");
  EXPECT_EQ(newest("run"), 12);
  EXPECT_EQ(cache_entries(folder_ / "cache").size(), 2U) << "one tokenizer, one data set";
}

TEST_F(PretrainTest, ATokenizerThatPadsWithAnotherTokenIsRefused) {
  fs::copy(source_folder() / "tests/fixtures/tokenizers/small/wordpiece", folder_ / "tokenizer");
  write_bytes(folder_ / "tokenizer/special_tokens_map.json", R"({"pad_token": "[SEP]"})");
  expect_refused(words("run", "tokenizer.path=tokenizer' --set 'tokenizer.train.vocab_size=null"),
                 "tokenizer.path: the tokenizer has '[SEP]' as its sep and as its pad token; "
                 "pretraining needs "
                 "two: name another pad_token in its special_tokens_map.json");
}

TEST_F(PretrainTest, StepsOfUnknownTokensAreSkipped) {
  fs::copy(source_folder() / "tests/fixtures/tokenizers/small/wordpiece", folder_ / "tokenizer");
  write_bytes(folder_ / "text.txt", "sea sea\n水水 水水\n");
  write_bytes(folder_ / "held-out.txt", "sea sea\n");
  const std::string small =
      "tokenizer.path=tokenizer' --set 'tokenizer.train.vocab_size=null' --set "
      "'training.batch_size=1' --set 'training.micro_batch_size=1' --set 'training.steps=20' --set "
      "'schedule.warmup_steps=0' --set 'data.validation=[held-out.txt]' --set "
      "'data.validation_fraction=null";
  train("run", small);
  expect_says(last_.err, "skipped: none of its tokens can be masked");
  write_bytes(folder_ / "text.txt", "水水 水水\n");
  expect_says(refusal(words("other", small)), "no token can be masked: all are unknown");
}

TEST_F(PretrainTest, WholeWordsOfATokenizerWithoutWordsAreRefusedBeforeTheStart) {
  const std::string tokenizer = source_folder() / "tests/fixtures/tokenizers/small/suffixes";
  const std::string message =
      "the tokenizer does not say which tokens start a word; leave masking.whole_word false, or "
      "choose another tokenizer";
  for (const std::string command : {"check", "pretrain"})
    expect_says(refusal(command +
                        " run.yaml --set run_dir=run --set masking.whole_word=true --set "
                        "tokenizer.train.vocab_size=null --set tokenizer.path=" +
                        tokenizer),
                message);
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(PretrainTest, HeldOutTextThatJudgesNothingIsRefusedByItsName) {
  fs::copy(source_folder() / "tests/fixtures/tokenizers/small/wordpiece", folder_ / "tokenizer");
  write_bytes(folder_ / "known.txt", "sea sea\n");
  write_bytes(folder_ / "short.txt", "the\nwas\n");
  const auto held_out = [&](const std::string& sources) {
    return refusal(words("run",
                         "tokenizer.path=tokenizer' --set 'tokenizer.train.vocab_size=null' --set "
                         "'data.validation_fraction=null' --set 'data.validation=[" +
                             sources + "]"));
  };
  expect_says(held_out("short.txt"),
              "nystrom: data.validation: no document has 2 tokens; give longer texts\n");
  write_bytes(folder_ / "unknown.txt", "水水 水水\n");
  expect_says(
      held_out("{files: [known.txt], name: a}, {files: [unknown.txt], name: b}"),
      "nystrom: data.validation b: no token can be masked: all are unknown to the tokenizer");
  expect_says(last_.err, "data.validation b: 100.0 % of the tokens are unknown");
}

TEST_F(PretrainTest, OtherTextIsRefusedInTheSameFolder) {
  train("run", "training.steps=6");
  std::ofstream(folder_ / "text.txt", std::ios::app) << "the sea was calm\n";
  expect_says(
      refusal(words("run", "training.steps=12")),
      "nystrom: run: its checkpoints come from other data; bring the files of data.train back");
}

TEST_F(PretrainTest, OtherValidationTextIsRefusedInTheSameFolder) {
  write_small_text(folder_ / "held-out.txt");
  const std::string held_out =
      "data.validation=[held-out.txt]' --set 'data.validation_fraction=null' --set "
      "'training.steps=";
  train("run", held_out + "6");
  std::ofstream(folder_ / "held-out.txt", std::ios::app) << "the sea was calm\n";
  expect_says(refusal(words("run", held_out + "12")),
              "nystrom: run: its checkpoints were evaluated on other data; bring the files of "
              "data.validation back as they were, or choose another run_dir\n");
}

TEST_F(PretrainTest, AFileThatIsTrainedAndJudgedOnIsToldByEveryCommand) {
  const std::string warning = "warning: " + fs::canonical(folder_ / "text.txt").string() +
                              " is matched by both data.train and data.validation: the model would "
                              "be evaluated on its training data; name different files\n";
  for (const std::string command : {"check", "prepare", "pretrain"}) {
    expect_says(run(command + " run.yaml --set run_dir=run --set training.steps=5 --set "
                              "data.validation_fraction=null --set 'data.validation=[./t*.txt]'")
                    .err,
                warning, command);
  }
}

TEST_F(PretrainTest, WithoutACheckpointSettingsMayChange) {
  fs::create_directory(folder_ / "run");
  { const RunLock marked(folder_ / "run"); }
  write_bytes(folder_ / "run" / "config.yaml", "optimizer: {learning_rate: 1.0e-1}\n");
  train("run", "training.steps=6");
}

TEST_F(PretrainTest, ALinkInARunIsNotFollowed) {
  train("run", "training.steps=6");
  write_bytes(folder_ / "diary", "mine\n");
  for (const char* name : {"log.txt", "metrics.jsonl"}) {
    const fs::path link = folder_ / "run" / name;
    fs::rename(link, folder_ / "kept");
    fs::create_symlink(folder_ / "diary", link);
    expect_says(refusal(words("run", "training.steps=12")),
                std::string(name) + ": is a symbolic link");
    EXPECT_EQ(read_bytes(folder_ / "diary"), "mine\n");
    fs::rename(folder_ / "kept", link);
  }
}

TEST_F(PretrainTest, TextOfTheSameSizeAndTimeIsReadAnew) {
  const auto prepared = [&](char letter) {
    std::string text = read_bytes(folder_ / "text.txt");
    text[0] = letter;
    write_bytes(folder_ / "text.txt", text);
    fs::last_write_time(folder_ / "text.txt", fs::file_time_type{});
    return run("prepare run.yaml --threads 1").err;
  };
  const auto folders = [](const std::string& messages) {
    std::set<std::string> names;
    for (const char* kind : {"cache/tokenizer-", "cache/tokens-"})
      names.insert(messages.substr(messages.find(kind), std::string(kind).size() + 16));
    return names;
  };
  const std::string a = prepared('a'), b = prepared('b'), again = prepared('a');
  for (const std::string& name : folders(a)) EXPECT_FALSE(folders(b).contains(name)) << name;
  EXPECT_EQ(folders(again), folders(a));
  expect_hides(again, "training a tokenizer");
}

TEST_F(PretrainTest, ADamagedCheckpointIsPassedOver) {
  train("run", "training.steps=12");
  std::ofstream(folder_ / "run" / "checkpoints" / "step-12" / "state.json", std::ios::app) << " ";
  train("run", "training.steps=12");
  expect_says(last_.err, "step-12: passed over: state.json has ");
}

}  // namespace
}  // namespace nystrom::testing
