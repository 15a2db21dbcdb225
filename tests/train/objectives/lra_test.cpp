// The tasks of Long Range Arena with the program, from files to predictions: mean pooling, two
// towers, bytes, symbols and pixels.
#include "tests/support/finetune_fixture.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"

namespace nystrom::testing {
namespace {

const std::string small_model =
    "run_dir: run\n"
    "optimizer: {learning_rate: 3.0e-3}\n"
    "logging: {tensorboard: false}\n"
    "model: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, "
    "max_position_embeddings: 64, initializer_range: 0.1, hidden_dropout_prob: 0.0, pooling: mean, "
    "attention: {num_landmarks: 8, conv_kernel_size: 3}";
const std::string training =
    "training: {dtype: f32, batch_size: 16, micro_batch_size: 8, epochs: 6}\n";

class LongRangeArena : public FinetuneTest {
 protected:
  void configure(const std::string& more_of_model, const std::string& rest) {
    write_bytes(folder_ / "run.yaml", small_model + more_of_model + "}\n" + training + rest);
  }
  ModelConfig saved_model() {
    Log quiet(true);
    return ModelFolder(find_model(folder_ / "run", quiet)).config;
  }
};

TEST_F(LongRangeArena, ListOps) {
  run("listops data --train 64 --validation 16 --test 16 --max-depth 3 --max-args 4 --min-length 3 "
      "--max-length 20 --seed 4 --quiet");
  EXPECT_EQ(last_.out, "data: 64 samples to train on, 16 to validate, 16 to test\n");
  configure(
      "",
      "tokenizer: {builtin: listops}\ndata: {sequence_length: 32}\n"
      "task: {recipe: listops, train: [data/basic_train.tsv], validation: [data/basic_val.tsv]}\n");
  train();
  EXPECT_EQ(saved_model().pooling, Pooling::mean);
  EXPECT_EQ(saved_model().vocab_size, 20);
  EXPECT_TRUE(std::isfinite(measured("loss", "data/basic_test.tsv")));
  const json guesses = predicted("\"( ( [MIN 3 ) ] )\" \"[MIN 3 ]\" --top-k 10");
  ASSERT_EQ(guesses.size(), 2);
  EXPECT_EQ(guesses[0].size(), 10);
  EXPECT_EQ(guesses[0], guesses[1]);  // parentheses have no effect
}

/// Masks in the task's own inputs come first (Amos et al., ICLR 2024).
TEST_F(LongRangeArena, ATaskMayFollowPretrainingOnItsInputs) {
  run("listops data --train 64 --validation 16 --test 16 --max-depth 3 --max-args 4 --min-length 3 "
      "--max-length 20 --seed 4 --quiet");
  for (const std::string tokenizer : {"listops", "bytes"}) {
    SCOPED_TRACE(tokenizer);
    const std::string start = "inputs-" + tokenizer;
    std::ofstream(folder_ / (start + ".yaml"))
        << "run_dir: " << start << "\ntokenizer: {builtin: " << tokenizer << "}\n"
        << "model: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
           "intermediate_size: 32, max_position_embeddings: 64, "
           "attention: {num_landmarks: 4, conv_kernel_size: 5}}\n"
           "data: {train: [data/basic_train.tsv], validation: [data/basic_val.tsv], "
           "text_column: Source, sequence_length: 32, cache: cache}\n"
           "schedule: {warmup_steps: 1}\n"
           "training: {steps: 3, batch_size: 8, dtype: f32}\n";
    expect_says(run("prepare " + start + ".yaml").err, "pieces: " + tokenizer);
    run("pretrain " + start + ".yaml --quiet");
    run("evaluate " + start + " --text data/basic_test.tsv --json --quiet");
    expect_says(last_.out, "\"loss\":");
    std::ofstream(folder_ / "task.yaml")
        << "run_dir: task-" << tokenizer << "\nmodel: {from: " << start << "}\n"
        << "task: {recipe: listops, train: [data/basic_train.tsv], validation: "
           "[data/basic_val.tsv]}\n"
           "data: {sequence_length: 32}\ntraining: {epochs: 1, batch_size: 8, dtype: f32}\n";
    expect_says(run("finetune task.yaml").err, "starting from ");
  }
}

TEST_F(LongRangeArena, ListOpsFilesFollowFromTheSeed) {
  const auto written = [&](const std::string& folder, const std::string& seed) {
    run("listops " + folder + " --train 5 --validation 2 --test 3 --quiet --seed " + seed);
    return read_bytes(folder_ / folder / "basic_test.tsv");
  };
  EXPECT_EQ(written("a", "1"), written("b", "1"));
  EXPECT_NE(written("c", "1"), written("d", "2"));
}

TEST_F(LongRangeArena, TextAsBytes) {
  configure_classification();
  configure("",
            "tokenizer: {builtin: bytes}\ndata: {sequence_length: 64}\n"
            "task: {kind: classification, train: [train.tsv], validation: [dev.tsv], columns: "
            "{text: sentence, label: label}}\n");
  train();
  EXPECT_EQ(saved_model().vocab_size, 258);
  EXPECT_GT(measured("accuracy", "dev.tsv"), 0.8);
  EXPECT_EQ(predicted("\"the old sea was calm\" --top-k 1")[0][0]["label"], "water");
  // Bytes beyond ASCII, and a single blank.
  EXPECT_EQ(predicted("\"caf\xC3\xA9\" \" \"").size(), 2);
}

/// The label says whether both texts are of the same kind. One text alone does not decide it.
TEST_F(LongRangeArena, RetrievalWithTwoTowers) {
  const auto write = [&](const std::string& name, int count, std::uint32_t seed) {
    Words words(seed);
    std::string text;
    for (int i = 0; i < count; ++i) {
      const bool first = words.below(2) == 0, second = words.below(2) == 0;
      text += (first == second ? "1.0\t" : "0.0\t") + std::to_string(i) + "\tx\t" +
              words.text(0, 3) + (first ? " zzz" : " qqq") + "\t" + (second ? "zzz " : "qqq ") +
              words.text(0, 3) + "\n";
    }
    write_bytes(folder_ / name, text);
  };
  write("train.tsv", 256, 1);
  write("dev.tsv", 64, 2);
  configure(", pairs: towers",
            "tokenizer: {builtin: bytes}\ndata: {sequence_length: 40}\n"
            "task: {recipe: aan, train: [train.tsv], validation: [dev.tsv]}\n");
  train();
  EXPECT_EQ(saved_model().pairs, Pairs::towers);
  EXPECT_GT(measured("accuracy", "dev.tsv"), 0.9);
  EXPECT_EQ(predicted("\"old zzz\" --pair \"zzz calm home\" --top-k 1")[0][0]["label"], "1.0");
  EXPECT_EQ(predicted("\"old zzz\" --pair \"qqq calm home\" --top-k 1")[0][0]["label"], "0.0");
  expect_says(run("info run --quiet").out, "classifier.dense");
  const auto parameters_of = [&](const std::string& target) {
    return json::parse(run("info --json --quiet " + target).out)
        .at("parameters")
        .get<std::int64_t>();
  };
  EXPECT_EQ(parameters_of("run.yaml"), parameters_of("run")) << "the vocabulary is that of bytes";
  expect_refused("predict run 'old zzz' --quiet",
                 "'old zzz': the task has pairs of texts; give the second by --pair TEXT");
  write_bytes(folder_ / "lines.txt", "one text\n");
  expect_refused("predict run lines.txt --quiet",
                 "lines.txt: lines gives each example one text, and the task has pairs of texts; "
                 "give a table with the columns '4' and '5'");
}

/// Dark and bright images.
TEST_F(LongRangeArena, ImagesAsPixels) {
  const auto write = [&](const std::string& name, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i)
      bytes += std::string(1, static_cast<char>(i % 2)) +
               std::string(3072, static_cast<char>(i % 2 * 150 + i % 5));
    write_bytes(folder_ / name, bytes);
  };
  write("train.bin", 128);
  write("dev.bin", 8);
  configure("",
            "tokenizer: {builtin: bytes}\ndata: {sequence_length: 64}\n"
            "task: {recipe: cifar10, train: [train.bin], validation: [dev.bin]}\n");
  train();
  EXPECT_EQ(measured("accuracy", "dev.bin"), 1);
  const json guesses = predicted("dev.bin --top-k 1");
  ASSERT_EQ(guesses.size(), 8);
  EXPECT_EQ(guesses[0][0]["label"], "airplane");
  EXPECT_EQ(guesses[1][0]["label"], "automobile");
  run("predict run dev.bin --quiet --top-k 1 --threads 1");
  EXPECT_TRUE(last_.out.starts_with("dev.bin: image 0\n")) << last_.out;
}

}  // namespace
}  // namespace nystrom::testing
