// Pretraining by replaced-token detection, from the run to the folders that it leaves.
#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "tests/train/cli/distributed_fixture.h"
#include "train/state/safetensors.h"

namespace nystrom::testing {
namespace {

class ReplacedTokensTest : public DistributedTest {
 protected:
  const std::string objective_ = "pretraining.objective=replaced_tokens ";
  const std::string as_electra_ =
      objective_ +
      "model.attention.kind=softmax model.attention.conv_kernel_size=null "
      "model.position_offset=0 model.hidden_act=gelu ";
};

TEST_F(ReplacedTokensTest, ItsLossesAreThoseOfOneProcess) {
  succeeded(train(1, "alone", objective_));
  for (const std::string more : {"training.zero=1", "training.micro_batch_size=4"}) {
    SCOPED_TRACE(more);
    const std::string run = more.substr(0, more.find('='));
    succeeded(train(2, run, objective_ + more));
    for (const char* name : {"loss", "generator_loss", "discriminator_loss", "grad_norm",
                             "validation_loss", "validation_generator_loss"})
      expect_near(metric(run, name), metric("alone", name), 1e-5);
    for (const char* name : {"accuracy", "replaced", "recall", "validation_accuracy"})
      expect_near(metric(run, name), metric("alone", name), 1e-2);
  }
}

TEST_F(ReplacedTokensTest, TellsThatItLearnedNothing) {
  const std::string end =
      succeeded(train(1, "run", objective_ + "optimizer.learning_rate=1e-9")).err;
  expect_hides(end, "; always \"original\": ");
  expect_says(end, " % is no better than always \"original\" (");
}

TEST_F(ReplacedTokensTest, AStoppedRunEndsInTheSameBits) {
  succeeded(train(1, "straight", objective_));
  succeeded(train(1, "stopped", objective_ + "training.steps=10"));
  succeeded(train(1, "stopped", objective_));
  EXPECT_EQ(checksum("stopped"), checksum("straight"));
}

TEST_F(ReplacedTokensTest, AnotherRunMayGoOnWithTheGenerator) {
  succeeded(train(1, "first", objective_));
  expect_hides(succeeded(train(1, "second", objective_ + "model.from=first")).err, "fresh: ");
  EXPECT_LT(metric("second", "generator_loss").front(), metric("first", "generator_loss").front());
  expect_says(succeeded(train(1, "masked", "model.from=first")).err,
              "fresh: cls.predictions.transform.dense.weight");
  expect_says(
      succeeded(train(1, "back", objective_ + "model.from=masked")).err,
      "fresh: discriminator_predictions.dense.weight, discriminator_predictions.dense.bias, "
      "discriminator_predictions.dense_prediction.weight, "
      "discriminator_predictions.dense_prediction.bias, generator; unused: ");
}

TEST_F(ReplacedTokensTest, AGeneratorOfOtherSizesIsFreshOnDemand) {
  succeeded(train(1, "first", objective_));
  const std::string other = objective_ + "model.from=first pretraining.generator.hidden_size=8 ";
  EXPECT_EQ(
      refused(train(1, "second", other)),
      "nystrom: model.from: the generator of first/checkpoints/step-20 has other sizes; leave "
      "pretraining.generator as it was, or set model.fresh_head: true\n");
  expect_says(succeeded(train(1, "second", other + "model.fresh_head=true")).err,
              ", generator; unused: ");
  expect_says(run("extend first longer --length 64").err,
              "note: the generator of first/checkpoints/step-20 is left out");
}

TEST_F(ReplacedTokensTest, ItLeavesAsElectraAndComesBack) {
  succeeded(train(1, "run", as_electra_));
  run("export run out");
  const auto config = read_json_file(folder_ / "out/config.json");
  EXPECT_EQ(config["architectures"], nlohmann::json::array({"ElectraForPreTraining"}));
  const auto weights = TensorFile::open(folder_ / "out/model.safetensors");
  EXPECT_TRUE(weights.contains("discriminator_predictions.dense_prediction.weight"));
  EXPECT_TRUE(weights.contains("electra.encoder.layer.1.output.dense.weight"));
  EXPECT_FALSE(weights.contains("generator.cls.predictions.bias"));
  write_bytes(folder_ / "pairs.jsonl",
              "{\"sentence_good\": \"the sea was calm\", \"sentence_bad\": \"sea the calm was\"}\n"
              "{\"sentence_good\": \"old ships sailed\", \"sentence_bad\": \"sailed old\"}\n");
  const auto judged = [&](const std::string& model) {
    return run("evaluate " + model + " --minimal-pairs pairs.jsonl --json").out;
  };
  expect_says(judged("run"), "\"pairs\":2");
  EXPECT_EQ(judged("out"), judged("run"));
}

TEST_F(ReplacedTokensTest, WhatItDoesNotDoIsRefused) {
  succeeded(train(1, "run", objective_));
  const std::string model = "run/checkpoints/step-20";
  expect_refused("evaluate run --text text.txt",
                 model +
                     ": tells replaced tokens, which a generator makes while it is trained; "
                     "--minimal-pairs evaluates it");
  expect_refused("predict run 'the [MASK] was calm'",
                 model +
                     ": tells replaced tokens and does no task; nystrom finetune trains one, and "
                     "evaluate --minimal-pairs asks it");
  expect_refused("export run out --verify --text text.txt",
                 "--text: " + model + " tells replaced tokens, and a text has none; leave it out");
  expect_refused("export run out --format transformers",
                 model +
                     ": cannot be exported for transformers' own class: its head tells replaced "
                     "tokens, and transformers' Nyströmformer has no such class; leave out "
                     "--format transformers, and the folder holds a class that computes it");
  expect_refused(
      "export run out --format bert",
      model +
          ": cannot be exported as bert: its attention is nystrom, and that of model_type bert is "
          "exact; leave out --format, and the folder holds a class that computes it");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace nystrom::testing
