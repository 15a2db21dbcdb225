// Pretraining on several sources of text: the loss of each, the same bits after a stop, and what
// check tells.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "tests/support/program_test.h"
#include "tests/support/small_text.h"

namespace nystrom::testing {
namespace {

class MixtureRun : public ProgramTest {
 protected:
  void SetUp() override {
    write_small_text(folder_ / "novels.txt");
    std::ofstream other(folder_ / "numbers.txt");
    for (int i = 0; i < 60; ++i)
      other << "line " << i << " has the numbers " << i * 7 << " and " << i * i << "\n";
    other.close();
    write_yaml(
        "{files: [novels.txt], name: novels, weight: 3}, {files: [numbers.txt], name: "
        "numbers, weight: 1}");
  }

  void write_yaml(const std::string& sources) {
    std::ofstream(folder_ / "run.yaml")
        << "model: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
           "intermediate_size: 32, max_position_embeddings: 32, attention: {num_landmarks: 4, "
           "conv_kernel_size: 5}}\n"
           "tokenizer: {train: {vocab_size: 40}}\n"
           "data: {train: ["
        << sources
        << "], validation_fraction: 0.2, documents: lines, sequence_length: 32, cache: cache}\n"
           "optimizer: {learning_rate: 1.0e-3}\n"
           "schedule: {warmup_steps: 2, decay: constant}\n"
           "training: {steps: 12, batch_size: 8, micro_batch_size: 4, dtype: f32}\n"
           "evaluation: {every: 6}\n"
           "checkpoint: {every: 6, keep: 2}\n";
  }

  const std::string pretrain_ = "pretrain run.yaml --threads 1 --set run_dir=";
};

TEST_F(MixtureRun, RecordsTheLossOfEachSource) {
  run(pretrain_ + "run");
  const auto loss = metric("run", "validation_loss"),
             novels = metric("run", "validation_loss_novels"),
             numbers = metric("run", "validation_loss_numbers");
  ASSERT_EQ(loss.size(), 2);
  ASSERT_EQ(novels.size(), 2);
  ASSERT_EQ(numbers.size(), 2);
  EXPECT_LT(std::min(novels[1], numbers[1]), loss[1]);
  EXPECT_GT(std::max(novels[1], numbers[1]), loss[1]);
}

TEST_F(MixtureRun, ResumesToTheSameBits) {
  run(pretrain_ + "whole");
  run(pretrain_ + "parts --set training.steps=6");
  run(pretrain_ + "parts");
  EXPECT_EQ(file_checksum(folder_ / "whole/checkpoints/step-12/model.safetensors"),
            file_checksum(folder_ / "parts/checkpoints/step-12/model.safetensors"));
}

TEST_F(MixtureRun, RefusesOtherWeightsInTheSameFolder) {
  run(pretrain_ + "run");
  write_yaml(
      "{files: [novels.txt], name: novels, weight: 2}, {files: [numbers.txt], name: "
      "numbers, weight: 1}");
  expect_says(refusal(pretrain_ + "run --set training.steps=18"),
              "run: holds a run with other settings; changed: data.train");
}

TEST_F(MixtureRun, CheckTellsTheShareOfEachSource) {
  run("check run.yaml --data --json --quiet");
  const auto sources = nlohmann::json::parse(last_.out)["data"]["sources"];
  ASSERT_EQ(sources.size(), 2);
  EXPECT_EQ(sources[0]["name"], "novels");
  EXPECT_DOUBLE_EQ(sources[0]["share"], 0.75);
  EXPECT_DOUBLE_EQ(sources[1]["share"], 0.25);
  EXPECT_NEAR(sources[1]["passes"].get<double>() * sources[1]["sequences"].get<double>(),
              12 * 8 / 4.0, 1e-9);
}

TEST_F(MixtureRun, RefusesAFileInTwoSources) {
  write_yaml("{files: [novels.txt], name: a}, {files: [n*.txt], name: b}");
  expect_refused(pretrain_ + "run",
                 "data.train: novels.txt is in two sources, a and b; name it in one of them");
}

}  // namespace
}  // namespace nystrom::testing
