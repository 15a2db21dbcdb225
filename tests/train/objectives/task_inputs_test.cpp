// Pretraining on the inputs of a task: its documents, and a run from one file to the fine-tuned
// model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/program_test.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config_io.h"
#include "train/objectives/corpus.h"

namespace nystrom::testing {
namespace {

class TaskInputs : public ProgramTest {
 protected:
  /// Writes run.yaml with a tokenizer and a task whose files are in the folder.
  void write_run(const std::string& tokenizer, const std::string& task) {
    std::ofstream(folder_ / "run.yaml")
        << "model: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
           "intermediate_size: 16, max_position_embeddings: 1024, attention: {num_landmarks: 4}}\n"
           "tokenizer: {"
        << tokenizer << "}\ndata: {sequence_length: 32, cache: " << (folder_ / "cache").string()
        << "}\ntask: {" << task << "}\n"
        << "training: {steps: 2, batch_size: 4, dtype: f32}\nschedule: {warmup_steps: 1}\n";
  }
  Corpus corpus() {
    RunSpec spec = read_run(config_file(folder_ / "run.yaml"));
    ResolutionErrors thrown;
    check_pretraining_run(spec, thrown);
    warnings_.clear();
    Log log(/*quiet=*/true, [&](const std::string& line) { warnings_.push_back(line); });
    Communicator alone;
    return prepare_corpus(with_named_tokenizer(spec), log, alone);
  }
  std::vector<std::string> warnings_;  // of the last corpus()
  std::string path(const char* name) { return (folder_ / name).string(); }
};

/// The documents of a data set as text of bytes.
std::vector<std::string> texts_of(const TokenDataset& tokens) {
  std::vector<std::int64_t> starts = tokens.document_starts(0, tokens.documents());
  starts.push_back(tokens.tokens());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    texts.emplace_back();
    for (const std::uint32_t id : tokens.read(starts[i], starts[i + 1] - starts[i]))
      texts.back().push_back(static_cast<char>(id - 1));
  }
  return texts;
}

TEST_F(TaskInputs, TextsAndPairsAreDocumentsOnce) {
  write_bytes(folder_ / "train.tsv", "text\tother\tlabel\none\ttwo\ta\nthree\ttwo\tb\none\t \ta\n");
  write_bytes(folder_ / "dev.tsv", "text\tother\tlabel\none\tfour\ta\n");
  write_run("builtin: bytes", "kind: classification, train: [" + path("train.tsv") +
                                  "], validation: [" + path("dev.tsv") +
                                  "], columns: {pair: other}");
  const Corpus made = corpus();
  EXPECT_EQ(texts_of(*made.train[0].tokens), (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(texts_of(*made.validation[0].tokens), (std::vector<std::string>{"one", "four"}));
  const std::vector<std::string> shared = warnings_;
  ASSERT_EQ(shared.size(), 1U) << "'one' is in both";
  EXPECT_EQ(nlohmann::json::parse(made.train[0].tokens->statistics()).at("files"), 1);
  EXPECT_EQ(corpus().token_folder, made.token_folder) << "from the cache";
  EXPECT_EQ(warnings_, shared);
  write_bytes(folder_ / "dev.tsv", "text\tother\tlabel\none\tfive\ta\n");
  EXPECT_NE(corpus().token_folder, made.token_folder) << "other texts";
}

TEST_F(TaskInputs, WordsAreReadWithoutTheirTags) {
  write_bytes(folder_ / "train.txt", "alpha NNP B-ORG\nbeta VB O\n\ngamma NN O\n");
  const std::string file = path("train.txt");
  write_run("builtin: bytes", "kind: tokens, train: [" + file + "], validation: [" + file + "]");
  EXPECT_EQ(texts_of(*corpus().train[0].tokens), (std::vector<std::string>{"alpha beta", "gamma"}));
}

/// A premise has several hypotheses, and some rows no label.
TEST_F(TaskInputs, HeldOutTextsAreNotAmongTheOthers) {
  std::string rows = "text\tother\tlabel\n";
  for (int i = 0; i < 60; ++i)
    rows += fmt::format("premise {}\thypothesis {}\t{}\n", i / 3, i,
                        i % 7 == 0   ? ""
                        : i % 2 == 0 ? "a"
                                     : "b");
  write_bytes(folder_ / "train.tsv", rows);
  write_run("builtin: bytes",
            "kind: classification, train: [" + path("train.tsv") +
                "], validation_fraction: 0.2, bad_rows: skip, columns: {pair: other}");
  const Corpus made = corpus();
  const auto train = texts_of(*made.train[0].tokens), held = texts_of(*made.validation[0].tokens);
  EXPECT_GE(held.size(), 8);
  for (const std::string& text : held) EXPECT_EQ(std::ranges::count(train, text), 0) << text;
}

TEST_F(TaskInputs, APixelIsAByteAndNeedsTheTokenizerOfBytes) {
  std::string batch;
  for (const int grey : {0, 200, 255})
    batch += std::string(1, 3) + std::string(3072, static_cast<char>(grey));
  write_bytes(folder_ / "batch.bin", batch);
  const std::string task = "recipe: cifar10, train: [" + path("batch.bin") + "], validation: [" +
                           path("batch.bin") + "]";
  write_run("builtin: bytes", task);
  const auto images = texts_of(*corpus().train[0].tokens);
  ASSERT_EQ(images.size(), 3);
  EXPECT_EQ(images[1], std::string(1024, static_cast<char>(200)));
  write_run("builtin: listops", task);
  EXPECT_EQ(input_error([&] { corpus(); }),
            "images are read as bytes, one a pixel, and the tokenizer is another; set "
            "tokenizer.builtin: bytes");
}

TEST_F(TaskInputs, TheSameFilePretrainsAndFineTunes) {
  write_bytes(folder_ / "train.tsv", "text\tlabel\nyes it is\tp\nno it is not\tn\nperhaps\tp\n");
  write_run("builtin: bytes", "kind: classification, train: [train.tsv], validation: [train.tsv]");
  const auto told = [&](const std::string& words) {
    run(words);
    return last_.out + last_.err;
  };
  expect_says(told("pretrain run.yaml --set run_dir=self"),
              "3 of 3 texts are among those to train on");
  run("finetune run.yaml --quiet --set run_dir=tuned --set model.from=self");
  expect_says(told("pretrain run.yaml --set run_dir=self --set training.steps=3"), "done: 3 steps",
              "goes on");
  expect_says(told("prepare run.yaml"), "training: 3 documents");
  run("report self");
  expect_hides(read_bytes(folder_ / "self/config.yaml"), "train.tsv",
               "its rows are no texts of data.train");
  run("pretrain run.yaml --quiet --set run_dir=replaced --set "
      "pretraining.objective=replaced_tokens");
}

}  // namespace
}  // namespace nystrom::testing
