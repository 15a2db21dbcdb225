// nystrom evaluate: its losses compared with losses from all logits, the sources of its settings,
// and the files that it leaves.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/pretraining/masking.h"
#include "data/shards/shards.h"
#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/config/config_io.h"
#include "train/export/forward.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

/// The expected result of an evaluation of lines, computed row by row.
struct Expected {
  double loss = 0, accuracy = 0, frequency_loss = 0, frequency_accuracy = 0;
  std::int64_t tokens = 0;
};

Tensor logits_of(const Model& model, const std::vector<std::int64_t>& ids) {
  for (const NamedTensor& output : run_forward(
           model, {{"input_ids", Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())})}},
           false)) {
    if (output.name == "logits") return output.tensor;
  }
  return {};
}

Expected expected_of(const TinyCheckpoint& tiny, const std::vector<std::string>& lines,
                     double probability) {
  const SpecialIds& special = tiny.tokenizer.special();
  const std::vector<std::int64_t> specials = ids_of(special);
  const MaskingTable table(tiny.tokenizer.vocab_size(), special.mask, specials);
  std::map<std::int64_t, double> counts;
  double all = 0;
  for (const std::string& line : lines) {
    for (const std::int32_t id : tiny.tokenizer.encode(line)) {
      if (id != special.unk) ++counts[id], ++all;
    }
  }
  std::int64_t frequent = -1;
  for (const auto& [id, count] : counts) {
    if (frequent < 0 || count > counts[frequent]) frequent = id;
  }
  Expected sum;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto wrapped = tiny.tokenizer.wrap(tiny.tokenizer.encode(lines[i])).ids;
    std::vector<std::int64_t> ids(wrapped.begin(), wrapped.end()), labels(ids.size());
    sum.tokens += mask_tokens(ids, labels, table, {.probability = probability},
                              {.seed = 42, .epoch = 0, .sample = i});
    const Tensor logits = logits_of(*tiny.model, ids);
    const auto values = logits.to_doubles();
    const auto classes = static_cast<std::size_t>(logits.dim(2));
    for (std::size_t position = 0; position < ids.size(); ++position) {
      if (labels[position] < 0) continue;
      const auto row = values.begin() + static_cast<std::ptrdiff_t>(position * classes);
      double total = 0;
      for (std::size_t c = 0; c < classes; ++c)
        total += std::exp(row[static_cast<std::ptrdiff_t>(c)]);
      sum.loss += std::log(total) - row[labels[position]];
      sum.accuracy += std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row ==
                      labels[position];
      sum.frequency_loss -= std::log(counts[labels[position]] / all);
      sum.frequency_accuracy += labels[position] == frequent;
    }
  }
  for (double* mean : {&sum.loss, &sum.accuracy, &sum.frequency_loss, &sum.frequency_accuracy})
    *mean /= static_cast<double>(sum.tokens);
  return sum;
}

class EvaluateTest : public ProgramTest {
 protected:
  EvaluateTest() : tiny_(folder_ / "model") {
    write_lines(folder_ / "text.txt", lines_);
    fs::create_directory(folder_ / "tmp");
    environment_ = "TMPDIR=tmp ";
  }

  nlohmann::json result(const std::string& arguments) {
    return nlohmann::json::parse(run("evaluate " + arguments + " --json").out);
  }
  TinyCheckpoint tiny_;
  std::vector<std::string> lines_ = tiny_lines(40, 7);
};

TEST_F(EvaluateTest, GivesTheMeansOverAllTokensAsked) {
  const Expected expected = expected_of(tiny_, lines_, 0.15);
  for (const char* batch : {"1", "16"}) {
    const auto got =
        result(std::string("model --text text.txt --set data.documents=lines --batch ") + batch);
    EXPECT_EQ(got.at("tokens"), expected.tokens);
    EXPECT_NEAR(got.at("loss").get<double>(), expected.loss, 1e-5);
    EXPECT_NEAR(got.at("perplexity").get<double>(), std::exp(expected.loss),
                1e-4 * std::exp(expected.loss));
    EXPECT_NEAR(got.at("accuracy").get<double>(), expected.accuracy, 1e-12);
    EXPECT_NEAR(got.at("frequency_loss").get<double>(), expected.frequency_loss, 1e-9);
    EXPECT_NEAR(got.at("frequency_accuracy").get<double>(), expected.frequency_accuracy, 1e-12);
    EXPECT_EQ(got.at("better_than_frequency").get<bool>(), expected.loss < expected.frequency_loss);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

TEST_F(EvaluateTest, MasksAsTheCheckpointWasTrainedOrAsToldTo) {
  RunConfig config;
  config.model = tiny_masked_lm();
  config.data.train = {TextSource::of_text("gone.txt")};
  config.data.documents = Documents::lines;
  config.data.sequence_length = 24;
  config.masking.probability = 0.5;
  write_bytes(folder_ / "model" / "config.yaml", to_yaml(config));
  EXPECT_EQ(result("model --text text.txt").at("tokens"), expected_of(tiny_, lines_, 0.5).tokens);
  EXPECT_EQ(result("model --text text.txt --set masking.probability=0.3").at("tokens"),
            expected_of(tiny_, lines_, 0.3).tokens);
}

TEST_F(EvaluateTest, OverridesTheModel) {
  ModelConfig config = tiny_masked_lm();
  config.attention.kind = AttentionKind::softmax;
  const TinyCheckpoint exact(folder_ / "exact", config);
  EXPECT_NEAR(
      result("model --text text.txt --set data.documents=lines --set model.attention.kind=softmax")
          .at("loss")
          .get<double>(),
      expected_of(exact, lines_, 0.15).loss, 1e-5);
}

TEST_F(EvaluateTest, SaysForPeopleWhetherTheModelIsAnyGood) {
  const Expected expected = expected_of(tiny_, lines_, 0.15);
  run("evaluate model --quiet --text text.txt --set data.documents=lines");
  char line[256];
  std::string text = std::to_string(expected.tokens) +
                     " masked tokens\n                          loss    perplexity   accuracy\n";
  const auto add = [&](const char* name, double loss, double accuracy) {
    std::snprintf(line, sizeof line, "%-22s%8.4f%14.2f%9.2f %%\n", name, loss, std::exp(loss),
                  100 * accuracy);
    text += line;
  };
  add("model", expected.loss, expected.accuracy);
  add("by token frequency", expected.frequency_loss, expected.frequency_accuracy);
  std::snprintf(line, sizeof line,
                "the model is %s than always predicting by the token frequency of this text, by "
                "%.4f nats a token\n",
                expected.loss < expected.frequency_loss ? "better" : "no better",
                std::abs(expected.frequency_loss - expected.loss));
  EXPECT_EQ(last_.out, text + line);
  EXPECT_EQ(last_.err, "");
}

TEST_F(EvaluateTest, NamesAPatternWithoutFiles) {
  expect_refused("evaluate model --text 'no*.txt'",
                 "'no*.txt' matches no file; relative names start at the current folder " +
                     fs::canonical(folder_.path()).string());
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

TEST_F(EvaluateTest, OptionsOfARunsFilesAreRefused) {
  for (const char* set : {"data.validation=[mine.txt]", "data={validation: [mine.txt]}"})
    expect_refused("evaluate model --text text.txt --set '" + std::string(set) + "'",
                   "--set " + std::string(set) +
                       ": data.validation is for runs, and this command reads the files that it "
                       "is given; leave it out");
}

TEST_F(EvaluateTest, APipeIsNoText) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_refused("evaluate model --quiet --text pipe", "pipe: is not a regular file");
}

TEST_F(EvaluateTest, ASignalLeavesNothingBehind) {
  std::vector<std::string> lines;
  for (int i = 0; i < 2000; ++i) lines.insert(lines.end(), lines_.begin(), lines_.end());
  write_lines(folder_ / "long.txt", lines);
  const pid_t process = start_command(
      folder_, "env TMPDIR=\"$PWD/tmp\" " + program_word() +
                   "evaluate model --quiet --set data.documents=lines --text long.txt");
  for (int i = 0; i < 4000 && fs::is_empty(folder_ / "tmp"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(process, SIGTERM);
  EXPECT_EQ(outcome(process), 130);
  EXPECT_EQ(read_bytes(folder_ / "log"), "nystrom: stopped; nothing was kept\n");
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

}  // namespace
}  // namespace nystrom::testing
