// nystrom check: all errors at once, a summary of the run, and known problems in its data.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/objectives/corpus_statistics.h"
#include "train/state/run_folder.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

/// A run on lines with an existing tokenizer.
const char* const yaml = R"(run_dir: run
model: {hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 8,
  max_position_embeddings: 16, attention: {num_landmarks: 4, conv_kernel_size: 3}}
tokenizer: {path: tokenizer}
data: {train: [train.txt], validation: [validation.txt], documents: lines,
  sequence_length: 16, cache: cache}
schedule: {warmup_steps: 1}
training: {steps: 30, batch_size: 4, micro_batch_size: 2, dtype: f32}
)";

class CheckTest : public ProgramTest {
 protected:
  CheckTest() {
    write_tiny_tokenizer(folder_ / "tokenizer");
    write_bytes(folder_ / "run.yaml", yaml);
    write_lines(folder_ / "train.txt", train_);
    write_lines(folder_ / "validation.txt", validation_);
  }

  std::string here() const { return fs::canonical(folder_.path()).string(); }

  Lines train_ = tiny_lines(30, 3), validation_ = tiny_lines(5, 4);
};

TEST_F(CheckTest, TellsWhatTheRunWillBeAndWritesNothing) {
  const Lines before = paths_below(folder_.path());
  EXPECT_EQ(run("check run.yaml").err, "");
  ModelConfig config = tiny_masked_lm();
  config.hidden_size = config.intermediate_size = 8;
  config.num_hidden_layers = 1;
  config.max_position_embeddings = 16;
  config.attention.num_landmarks = 4;
  const std::size_t memory = last_.out.find("memory: ");
  EXPECT_EQ(
      last_.out.substr(0, memory),
      "ok\nparameters: " + std::to_string(Model(config).parameters().count()) +
          "\ntraining: 30 steps of 4 sequences of at most 16 tokens: at most 64 tokens a step\n"
          "data: not read yet; --data reads and describes it\n");
  expect_says(last_.out.substr(memory), " of this machine's ");
  EXPECT_EQ(paths_below(folder_.path()), before);
}

TEST_F(CheckTest, TellsWhatChangesFromStepToStep) {
  const auto told = [&](const std::string& option) {
    return run("check run.yaml --set '" + option + "'").out;
  };
  expect_says(told("data.length_schedule={0: 8, 20: 16}"),
              "  from step 1: 8 sequences of at most 8 tokens\n"
              "  from step 21: 4 sequences of at most 16 tokens\n");
  expect_says(told("masking.probability={0: 0.3, 20: 0.2, end: 0.15}"),
              "  at step 1: 30 % masked\n  at step 21: 20 % masked\n  at the end: 15 % masked\n");
}

TEST_F(CheckTest, TellsThatParametersAreTheMostBeforeATokenizerIsTrained) {
  std::string fresh = yaml;
  const std::string path = "tokenizer: {path: tokenizer}\n";
  fresh.erase(fresh.find(path), path.size());
  write_bytes(folder_ / "fresh.yaml", fresh);
  expect_says(run("check fresh.yaml").out, " at most; the tokenizer is not trained yet\n");
}

/// A model that needs more memory than any machine has: every command that would train it says so
/// at once, before it writes anything.
TEST_F(CheckTest, RefusesWhatNoMachineHolds) {
  const Lines before = paths_below(folder_.path());
  const std::string huge =
      " run.yaml --set model.hidden_size=100000 --set model.num_hidden_layers=20";
  for (const std::string command : {"check", "pretrain"}) {
    expect_says(refusal(command + huge), " GB in training, and this machine has ");
    EXPECT_TRUE(last_.err.ends_with("; choose a smaller model, or training.dtype bf16\n"))
        << last_.err;
  }
  EXPECT_EQ(paths_below(folder_.path()), before);
}

TEST_F(CheckTest, TellsWhetherTheRunFits) {
  run("check run.yaml --gpus 2 --memory 1G --bandwidth 10 --speed 1G");
  for (const char* part :
       {"memory of each of 2 devices:\n", "  weights ", "  gradients ", "  optimizer ",
        "  communication ", "  activations of 1 layers, ",
        "largest micro_batch_size in 1.00 GB: 2\n", "communication of a step: ",
        "computation of a step: ", "a step: ", " tokens a second, all sequences at full length\n"})
    expect_says(last_.out, part);
  refusal("check run.yaml --memory 10K");
  EXPECT_TRUE(last_.err.starts_with("nystrom: the run needs ")) << last_.err;
  EXPECT_TRUE(last_.err.ends_with(
      " KB on each device, --memory allows 10.0 KB; not even one sequence fits: set "
      "training.activation_checkpointing: true, training.zero: 1 or a smaller model\n"))
      << last_.err;
  const auto json = nlohmann::json::parse(run("check run.yaml --memory 1G --json").out);
  EXPECT_EQ(json["memory"]["largest_micro_batch_size"], 4);
  EXPECT_GT(json["memory"]["total"], json["memory"]["activations"]);
  expect_refused(
      "check run.yaml --gpus 2 --speed 1G",
      "--speed with several devices needs --bandwidth, the GB a second in and out of each");
  expect_refused("check run.yaml --bandwidth 10",
                 "--bandwidth is between several devices; give their number by --gpus");
  expect_refused("check run.yaml --gpus 5",
                 "run.yaml: training.batch_size 4 leaves some of 5 processes without a sequence; "
                 "raise it, or start fewer");
  for (const std::string number : {"nan", "0", "-1", "inf"})
    expect_refused("check run.yaml --gpus 2 --memory 1G --bandwidth " + number,
                   "--bandwidth " + number + ": expected a number greater than 0");
}

TEST_F(CheckTest, TellsAllErrorsOfTheFile) {
  expect_refused("check run.yaml --set model.hidden_size=9 --set masking.mask=0.95",
                 "--set model.hidden_size=9: model.hidden_size 9 is not divisible by "
                 "num_attention_heads 2; each head takes an equal share of the width\n"
                 "--set masking.mask=0.95: masking.mask 0.95 and masking.random 0.1 add up to more "
                 "than 1; the rest stays unchanged");
}

TEST_F(CheckTest, TellsAllErrorsAroundTheFile) {
  fs::create_directory(folder_ / "corpus");
  const std::string nowhere =
      " matches no file; relative names start at the current folder " + here();
  expect_refused(
      "check run.yaml --set data.train=[train.txt,no.txt,corpus] --set data.validation=['also*no'] "
      "--set "
      "tokenizer.path=no --set model.embed_dim=3 --set model.norm=pre --set model.positions=none",
      "run.yaml: model.embed_dim is set, but pretraining predicts tokens of text; leave it out\n"
      "run.yaml: data.train: 'no.txt'" +
          nowhere +
          "\n"
          "run.yaml: data.train: 'corpus' is a folder; name the files in it, as in 'corpus/*.txt', "
          "or all below it: 'corpus/**'\n"
          "run.yaml: data.validation: 'also*no'" +
          nowhere +
          "\n"
          "run.yaml: tokenizer.path: no: no such file or folder");
}

TEST_F(CheckTest, TellsOfFilesBesideWrongValues) {
  const std::string nowhere =
      " matches no file; relative names start at the current folder " + here();
  const std::string files = "run.yaml: data.train: 'no.txt'" + nowhere +
                            "\n"
                            "run.yaml: tokenizer.path: no: no such file or folder\n"
                            "run.yaml: train.txt: is no folder; name another place";
  const std::string command =
      "check run.yaml --set data.train=no.txt --set tokenizer.path=no --set run_dir=train.txt/run ";
  expect_refused(command + "--set training.micro_batch_size=3",
                 "--set training.micro_batch_size=3: training.batch_size 4 is not divisible by "
                 "micro_batch_size 3; a step is a whole number of micro-batches\n" +
                     files);
  expect_refused(command + "--set seed=x",
                 "--set seed=x: seed: got 'x', expected a whole number at least 0\n" + files);
  write_bytes(folder_ / "task.yaml",
              "run_dir: task\nmodel: {from: no}\n"
              "task: {kind: classification, train: [no.tsv], validation: [rows.tsv]}\n");
  write_bytes(folder_ / "rows.tsv", "words\tlabel\nthe sea\ta\n");
  const std::string rows = "task.yaml: task.train: 'no.tsv'" + nowhere;
  expect_says(refusal("check task.yaml"), "model.from: no: no such folder; ");
  EXPECT_TRUE(last_.err.ends_with("\n" + rows + "\n")) << last_.err;
  expect_says(refusal("check task.yaml --set model.from=null --set tokenizer.path=tokenizer"),
              rows + "\ntask.yaml: task.validation: rows.tsv:1: there is no column 'text'");
}

TEST_F(CheckTest, TellsOfFoldersThatCannotBeMade) {
  const Lines before = paths_below(folder_.path());
  const std::string message = "run.yaml: train.txt: is no folder; name another place";
  expect_refused("check run.yaml --set run_dir=train.txt/run", message);
  expect_refused("check run.yaml --set data.cache=train.txt",
                 "run.yaml: data.cache: train.txt: is no folder; name another place");
  for (const std::string command : {"prepare", "pretrain"})
    expect_says(refusal(command + " run.yaml --set run_dir=train.txt/run"), "train.txt: is no fo");
  EXPECT_EQ(paths_below(folder_.path()), before);
}

TEST_F(CheckTest, TellsOfAProcessThatTrains) {
  std::optional<RunLock> lock(folder_ / "run");
  const std::string message =
      "run: another process trains in this run directory; wait for it, or choose another run_dir";
  expect_refused("check run.yaml", "run.yaml: " + message);
  expect_refused("pretrain run.yaml --quiet", message);
  run("check run.yaml --memory 1G");  // a plan for other machines
  lock.reset();
  run("check run.yaml");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(CheckTest, TellsOfATypeThatTheDeviceLacks) {
  expect_refused(
      "check run.yaml --set training.dtype=f16",
      "run.yaml: training.dtype: f16 is computed only on GPUs; use bf16 or f32, or --device cuda");
  run("check run.yaml --set training.dtype=f16 --memory 1G");  // a plan for other machines
}

TEST_F(CheckTest, TellsOfARunOfOtherSettings) {
  run("pretrain run.yaml --quiet --set training.steps=1");
  run("check run.yaml");  // the number of steps may change
  expect_refused(
      "check run.yaml --set seed=1 --set optimizer.learning_rate=0.5",
      "run.yaml: run: holds a run with other settings; changed: optimizer.learning_rate "
      "(0.0001, now 0.5), seed (42, now 1); choose another run_dir, or undo the changes");
}

TEST_F(CheckTest, ComparesTheDataWithThoseOfTheCheckpoints) {
  write_bytes(folder_ / "task.yaml",
              "run_dir: task\nmodel: {from: run}\n"
              "task: {kind: classification, train: [task.tsv], validation: [task.tsv]}\n"
              "training: {epochs: null, steps: 1, batch_size: 2}\n");
  const std::string rows = "text\tlabel\nthe sea\ta\nold men\tb\nstars\ta\n";
  write_bytes(folder_ / "task.tsv", rows);
  const auto expect_both_refuse = [&](const std::string& command, const std::string& more,
                                      const std::string& message) {
    for (const std::string& each : {"check" + more + " --data", command + more})
      expect_says(refusal(each + " --set training.steps=6 --quiet"), message);
  };
  run("pretrain run.yaml --quiet --set training.steps=1");
  run("check run.yaml --data --set training.steps=3");
  run("finetune task.yaml --quiet");
  run("check task.yaml --data --set training.steps=3");
  write_bytes(folder_ / "task.tsv", rows + "ships\tb\n");
  expect_both_refuse("finetune", " task.yaml", "task: its checkpoints come from other data; bring");
  write_bytes(folder_ / "task.tsv", rows);
  write_lines(folder_ / "train.txt", tiny_lines(31, 3));
  expect_both_refuse("pretrain", " run.yaml", "run: its checkpoints come from other data; bring");
  fs::remove_all(folder_ / "run");
  run("pretrain run.yaml --quiet --set training.steps=1 --set seed=7");
  expect_both_refuse("finetune", " task.yaml",
                     "task: its checkpoints started from other weights, those that log.txt names");
}

TEST_F(CheckTest, TheSameWarmUpInOtherWordsIsNoOtherSetting) {
  run("pretrain run.yaml --quiet --set training.steps=10");
  const std::string by_default = "run.yaml --set schedule.warmup_steps=null --set training.steps=";
  EXPECT_EQ(run("check " + by_default + "10").err, "")
      << "a tenth of the steps is the one step of the run";
  expect_refused(
      "check " + by_default + "30",
      "run.yaml: run: holds a run with other settings; changed: "
      "schedule.warmup_steps (1, now null); choose another run_dir, or undo the changes");
}

TEST_F(CheckTest, TellsOfAVocabularyThatTheTokenizerExceeds) {
  expect_refused("check run.yaml --set model.vocab_size=35",
                 "run.yaml: tokenizer.path: model.vocab_size 35 is below the tokenizer's 36 "
                 "pieces; raise it, or leave it out");
}

TEST_F(CheckTest, TakesTheTokenizersFileToo) {
  run("check run.yaml --data --set tokenizer.path=tokenizer/tokenizer.json");
}

TEST_F(CheckTest, ComparesTheTokensInTheCacheWithTheirChecksums) {
  const std::string check = "check run.yaml --data --set data.cache=tokens";
  run(check);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "tokens"))
    if (entry.path().extension() == ".h5") {
      std::string bytes = read_bytes(entry.path());
      bytes[bytes.size() / 2] ^= 1;
      write_bytes(entry.path(), bytes);
    }
  expect_says(refusal(check), "does not fit the checksum in the index: the file is damaged");
}

TEST_F(CheckTest, ErrorsInJson) {
  refusal("check run.yaml --json --set data.train=[] --set data.validation=[]");
  EXPECT_EQ(nlohmann::json::parse(last_.out),
            nlohmann::json({{"ok", false},
                            {"errors",
                             {"run.yaml: data.train is empty; name the text files to train on, "
                              "such as [corpus/*.txt]",
                              "run.yaml: data.validation is empty; name held-out text files, or "
                              "set data.validation_fraction, such as 0.01"}}}));
}

TEST_F(CheckTest, KnowsTheEpochsOnceTheDataIsInTheCache) {
  run("prepare run.yaml");
  const auto plan = nlohmann::json::parse(run("check run.yaml --json --set training.steps=3").out);
  const auto sequences = plan.at("sequences").get<std::int64_t>();
  EXPECT_GE(sequences, 30);
  EXPECT_DOUBLE_EQ(plan.at("epochs").get<double>(), 12.0 / static_cast<double>(sequences));
  EXPECT_EQ(plan.at("warnings"), nlohmann::json(epoch_warnings(plan.at("epochs"))));
  EXPECT_EQ(plan.at("warnings").size(), 1u);
}

/// A sequence of two segments has a third special token, which changes the sequences.
TEST_F(CheckTest, CountsTheSequencesThatTheRunTrainsOnWithAndWithoutTheReport) {
  Lines lines;
  for (int i = 0; i < 30; ++i)
    lines.push_back(tiny_lines(8, 3 + static_cast<std::uint32_t>(i))[0] + " " +
                    tiny_lines(8, 90)[1]);
  write_lines(folder_ / "train.txt", lines);
  const std::string order = " --set masking.sentence_order=true --set data.sequence_length=12";
  run("prepare run.yaml" + order);
  const auto sequences = [&](const std::string& more) {
    run("check run.yaml --json --quiet" + more);
    return nlohmann::json::parse(last_.out).at("sequences").get<std::int64_t>();
  };
  EXPECT_EQ(sequences(order), sequences(order + " --data"));
  EXPECT_NE(sequences(order), sequences(" --set data.sequence_length=12"))
      << "they are others, or the test cannot fail";
}

TEST_F(CheckTest, RefusesAWarmUpThatIsLongerThanTheEpochs) {
  const std::string epochs =
      " --set training.steps=null --set training.epochs=1 --set schedule.warmup_steps=";
  expect_says(refusal("check run.yaml --data --quiet" + epochs + "1000"),
              "nystrom: schedule.warmup_steps 1000 exceeds the number of steps, ");
  EXPECT_EQ(run_program(folder_, "check run.yaml --quiet" + epochs + "1000").err, last_.err)
      << "the data is in the cache now";
  EXPECT_EQ(run_program(folder_, "pretrain run.yaml --quiet" + epochs + "1000").err, last_.err);
  EXPECT_FALSE(fs::exists(folder_ / "run" / "config.yaml"));
  run("pretrain run.yaml --quiet" + epochs + "null");  // the default is a share of the steps
}

/// The data contain two duplicated lines, one of them in the validation text too. They also contain
/// a bad line of each kind, a long line and a line with one token.
class PlantedData : public CheckTest {
 protected:
  PlantedData() : tokenizer_(open_tokenizer(folder_ / "tokenizer")) {
    train_ = tiny_lines(20, 5);
    train_.insert(train_.begin() + 3, train_[10]);
    train_.push_back(train_[12]);
    train_.push_back(
        "the sea was calm and old ships sailed home under pale stars while men sang the sea was "
        "calm and old ships");
    train_.push_back("the");
    train_.push_back("sea \xE2\x98\x83 \xE2\x98\x83 \xE2\x98\x83 \xE2\x98\x83");
    validation_.push_back(train_[12]);
    Lines text = train_;
    text.insert(text.begin(), {"", "bad \xff", ""});
    write_lines(folder_ / "train.txt", text);
    write_lines(folder_ / "validation.txt", validation_);
  }

  nlohmann::json report(const std::string& more = "") {
    return nlohmann::json::parse(run("check run.yaml --data --json --quiet " + more).out);
  }
  std::vector<std::int64_t> lengths(const Lines& lines) const {
    std::vector<std::int64_t> result;
    for (const std::string& line : lines)
      result.push_back(static_cast<std::int64_t>(tokenizer_->encode(line).size()));
    return result;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(PlantedData, IsFound) {
  const auto data = report().at("data"), train = data.at("train");
  EXPECT_EQ(data.at("duplicates"), 2);
  EXPECT_EQ(data.at("overlap"), 1);
  EXPECT_EQ(train.at("left_out"),
            nlohmann::json({{"empty", {{"count", 2}, {"first", "train.txt:1"}}},
                            {"not UTF-8", {{"count", 1}, {"first", "train.txt:2"}}}}));
  EXPECT_EQ(train.at("files"), 1);
  EXPECT_EQ(train.at("documents"), train_.size());
  EXPECT_EQ(train.at("documents_read"), train_.size());
  EXPECT_EQ(data.at("validation").at("documents"), validation_.size());
  EXPECT_EQ(data.at("validation").at("left_out"), nlohmann::json::object());
  std::int64_t unknown = 0;
  for (const std::string& line : train_) {
    for (const std::int32_t id : tokenizer_->encode(line))
      unknown += id == tokenizer_->special().unk;
  }
  EXPECT_EQ(unknown, 4);
  EXPECT_EQ(train.at("unknown_tokens"), unknown);
}

TEST_F(PlantedData, LengthsAreCounted) {
  const auto train = report().at("data").at("train");
  std::vector<std::int64_t> counts = lengths(train_);
  std::int64_t tokens = 0, cut = 0, dropped = 0, sequences = 0;
  for (const std::int64_t count : counts) {
    /// A sequence has 16 positions with cls and sep. Remainders of one token are dropped.
    const std::int64_t pieces = count / 14 + (count % 14 >= 2);
    tokens += count;
    cut += pieces > 1;
    dropped += count % 14 == 1;
    sequences += pieces;
  }
  std::sort(counts.begin(), counts.end());
  EXPECT_GE(cut, 1);
  EXPECT_GE(dropped, 1);
  EXPECT_EQ(train.at("tokens"), tokens);
  EXPECT_EQ(train.at("median_tokens_per_document"),
            (counts[(counts.size() - 1) / 2] + counts[counts.size() / 2]) / 2.0);
  EXPECT_EQ(train.at("longest_document"), counts.back());
  EXPECT_EQ(train.at("documents_cut"), cut);
  EXPECT_EQ(train.at("remainders_dropped"), dropped);
  EXPECT_EQ(train.at("sequences"), sequences);
}

TEST_F(PlantedData, BytesFillASequenceWithoutTokensAroundThem) {
  const auto train = report(
                         "--set tokenizer.path=null --set tokenizer.builtin=bytes --set "
                         "data.sequence_length=19 --set model.max_position_embeddings=19")
                         .at("data")
                         .at("train");
  const auto longer = [](const std::string& line) { return line.size() >= 19 + 2; };
  EXPECT_EQ(train.at("documents_cut"), std::ranges::count_if(train_, longer));
  const auto just_fits = [](const std::string& line) {
    return line.size() == 19 || line.size() == 20;  // a rest of one byte is dropped
  };
  EXPECT_TRUE(std::ranges::any_of(train_, just_fits)) << "or the test cannot fail";
}

TEST_F(PlantedData, LengthsAreCountedAcrossDocuments) {
  const auto train = report("--set data.cross_documents=true").at("data").at("train");
  std::int64_t at = 0, cut = 0;
  for (const std::int64_t count : lengths(train_)) {
    cut += at / 14 != (at + count - 1) / 14;
    at += count + 1;
  }
  --at;
  EXPECT_EQ(train.at("documents_cut"), cut);
  EXPECT_EQ(train.at("remainders_dropped"), at % 14 == 1 ? 1 : 0);
  EXPECT_EQ(train.at("sequences"), at / 14 + (at % 14 >= 2));
}

TEST_F(PlantedData, PaddingIsThatOfTheFirstSteps) {
  // Steps over all sequences once, in rows of at most 16 positions. The share of padding follows
  // from the lengths.
  const auto sequences = report().at("data").at("train").at("sequences").get<std::int64_t>();
  std::int64_t tokens = 0;
  for (const std::int64_t count : lengths(train_)) {
    for (std::int64_t rest = count; rest >= 2; rest -= 14)
      tokens += std::min<std::int64_t>(rest, 14) + 2;
  }
  const std::string number = std::to_string(sequences);
  const auto data = report("--set training.steps=1 --set training.batch_size=" + number +
                           " --set training.micro_batch_size=" + number)
                        .at("data");
  EXPECT_DOUBLE_EQ(data.at("padding").get<double>(),
                   1 - static_cast<double>(tokens) / static_cast<double>(16 * sequences));
}

TEST_F(PlantedData, IsWarnedOf) {
  const Outcome outcome = run("check run.yaml --data --quiet --set training.steps=1000");
  const auto plan = report("--set training.steps=1000");
  const auto number = [&](const char* format, double value) {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return std::string(text);
  };
  const auto& train = plan.at("data").at("train");
  const Lines lines = {
      "data.train: " +
          number("%.1f", 100 * train.at("unknown_tokens").get<double>() /
                             train.at("tokens").get<double>()) +
          " % of the tokens are unknown; the tokenizer does not fit the text",
      "1 of 6 validation documents are training documents too; the validation loss will look "
      "better than it is",
      "the run goes over the training data " + number("%.0f", plan.at("epochs")) +
          " times; lower training.steps, or give more text"};
  Lines all = lines;  // of files too
  all.insert(all.begin(), plan.at("warnings").at(0));
  EXPECT_TRUE(all[0].starts_with("data.train: left out 1 not UTF-8"));
  EXPECT_EQ(plan.at("warnings"), nlohmann::json(all));
  EXPECT_EQ(outcome.err,
            "warning: data.train: left out 1 not UTF-8 (first: train.txt:2); convert them, for "
            "example from Latin-1: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW\nwarning: " +
                lines[0] + "\nwarning: " + lines[1] + "\nwarning: " + lines[2] + "\n");
}

TEST_F(PlantedData, AllIsPrintedForPeople) {
  run("check run.yaml --data --quiet");
  for (const char* line :
       {"\nleft out: not UTF-8                                    1               0\n",
        "\nfirst left out as empty: train.txt:1\n",
        "\ntraining documents that repeat another: 2; validation documents found in training: 1\n",
        "\n(equal by a 128-bit hash of their tokens, of which 16 bytes a training document are "
        "held)\n",
        "\nas the model sees it; original→seen: [word→[MASK]] masked, [word→other] replaced, "
        "[word→word] kept\n  [CLS]"}) {
    expect_says(last_.out, line);
  }
}

TEST_F(PlantedData, SamplesAreTheTextWithItsMasks) {
  const auto samples =
      report("--set masking.mask=1 --set masking.random=0").at("data").at("samples");
  ASSERT_EQ(samples.size(), 3u);
  for (std::string text : samples) {
    expect_says(text, "→[MASK]]");
    for (std::size_t at = text.find("→[MASK]]"); at != text.npos; at = text.find("→[MASK]]"))
      text.replace(at, 10, "");
    std::erase(text, '[');
    text = text.substr(4, text.size() - 8);  // removes CLS] … SEP]
    const std::string bare = text.substr(text.find(' ') + 1);
    EXPECT_TRUE(std::any_of(train_.begin(), train_.end(), [&](const std::string& line) {
      return line.find(bare) != line.npos;
    })) << bare;
  }
}

TEST(CorpusStatistics, SamplesAreShownInColourOrBrackets) {
  const std::vector<ShownToken> sample = {{"[CLS]", Masking::none, ""},
                                          {" the", Masking::none, ""},
                                          {" sea", Masking::masked, "[MASK]"},
                                          {"s", Masking::replaced, " men"},
                                          {" was", Masking::kept, " was"}};
  EXPECT_EQ(shown(sample, false), "[CLS] the [sea→[MASK]][s→men] [was→was]");
  EXPECT_EQ(shown(sample, true),
            "[CLS] the \x1b[33msea→[MASK]\x1b[0m\x1b[31ms→men\x1b[0m \x1b[32mwas→was\x1b[0m");
}

TEST(CorpusStatistics, WarnsOfPaddingAndOfTooFewEpochs) {
  CorpusStatistics report;
  report.padding = 0.5;
  EXPECT_EQ(data_warnings(report), Lines{});
  report.padding = 0.756;
  EXPECT_EQ(data_warnings(report), Lines{"76 % of the places of a step hold no token, so that it "
                                         "learns from few; raise training.batch_size, or set "
                                         "data.packing to isolated"});
  EXPECT_EQ(epoch_warnings(1), Lines{});
  EXPECT_EQ(epoch_warnings(100), Lines{});
  EXPECT_EQ(
      epoch_warnings(0.25),
      Lines{
          "the run sees only 25 % of the training data; raise training.steps, or give less text"});
  EXPECT_EQ(epoch_warnings(101), Lines{"the run goes over the training data 101 times; lower "
                                       "training.steps, or give more text"});
}

}  // namespace
}  // namespace nystrom::testing
