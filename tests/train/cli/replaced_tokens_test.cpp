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
  ASSERT_EQ(train(1, "alone", objective_).code, 0);
  for (const std::string more : {"training.zero=1", "training.micro_batch_size=4"}) {
    SCOPED_TRACE(more);
    const std::string run = more.substr(0, more.find('='));
    const Outcome trained = train(2, run, objective_ + more);
    ASSERT_EQ(trained.code, 0) << trained.err;
    for (const char* name : {"loss", "generator_loss", "discriminator_loss", "grad_norm",
                             "validation_loss", "validation_generator_loss"})
      expect_near(metric(run, name), metric("alone", name), 1e-5);
    for (const char* name : {"accuracy", "replaced", "recall", "validation_accuracy"})
      expect_near(metric(run, name), metric("alone", name), 1e-2);
  }
}

TEST_F(ReplacedTokensTest, AStoppedRunEndsInTheSameBits) {
  ASSERT_EQ(train(1, "straight", objective_).code, 0);
  ASSERT_EQ(train(1, "stopped", objective_ + "training.steps=10").code, 0);
  ASSERT_EQ(train(1, "stopped", objective_).code, 0);
  EXPECT_EQ(checksum("stopped"), checksum("straight"));
}

TEST_F(ReplacedTokensTest, AnotherRunMayGoOnWithTheGenerator) {
  ASSERT_EQ(train(1, "first", objective_).code, 0);
  const Outcome second = train(1, "second", objective_ + "model.from=first");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.err.find("fresh: "), std::string::npos) << second.err;
  EXPECT_LT(metric("second", "generator_loss").front(), metric("first", "generator_loss").front());
  const Outcome masked = train(1, "masked", "model.from=first");
  EXPECT_NE(masked.err.find("fresh: cls.predictions.transform.dense.weight"), std::string::npos)
      << masked.err;
  const Outcome back = train(1, "back", objective_ + "model.from=masked");
  EXPECT_NE(back.err.find("fresh: discriminator_predictions.dense.weight, "
                          "discriminator_predictions.dense.bias, "
                          "discriminator_predictions.dense_prediction.weight, "
                          "discriminator_predictions.dense_prediction.bias, generator; unused: "),
            std::string::npos)
      << back.err;
}

TEST_F(ReplacedTokensTest, AGeneratorOfOtherSizesIsFreshOnDemand) {
  ASSERT_EQ(train(1, "first", objective_).code, 0);
  const std::string other = objective_ + "model.from=first pretraining.generator.hidden_size=8 ";
  const Outcome refused = train(1, "second", other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "nystrom: the generator of first/checkpoints/step-20 has other sizes; leave "
            "pretraining.generator as it was, or set model.fresh_head: true\n");
  const Outcome fresh = train(1, "second", other + "model.fresh_head=true");
  EXPECT_NE(fresh.err.find(", generator; unused: "), std::string::npos) << fresh.err;
  const Outcome extended = run_program(folder_, "extend first longer --length 64");
  EXPECT_NE(extended.err.find("note: the generator of first/checkpoints/step-20 is left out"),
            std::string::npos)
      << extended.err;
}

TEST_F(ReplacedTokensTest, ItLeavesAsElectraAndComesBack) {
  ASSERT_EQ(train(1, "run", as_electra_).code, 0);
  const Outcome exported = run_program(folder_, "export run out");
  ASSERT_EQ(exported.code, 0) << exported.err;
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
    return run_program(folder_, "evaluate " + model + " --minimal-pairs pairs.jsonl --json").out;
  };
  EXPECT_NE(judged("run").find("\"pairs\":2"), std::string::npos) << judged("run");
  EXPECT_EQ(judged("out"), judged("run"));
}

TEST_F(ReplacedTokensTest, WhatItDoesNotDoIsRefused) {
  ASSERT_EQ(train(1, "run", objective_).code, 0);
  const std::string model = "run/checkpoints/step-20";
  const auto error = [&](const std::string& arguments) {
    const Outcome outcome = run_program(folder_, arguments);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_EQ(error("evaluate run --text text.txt"),
            "nystrom: " + model +
                ": tells replaced tokens, which a generator makes while it is trained; "
                "--minimal-pairs evaluates it\n");
  EXPECT_EQ(error("predict run 'the [MASK] was calm'"),
            "nystrom: " + model +
                ": tells replaced tokens and does no task; nystrom finetune trains one, and "
                "evaluate --minimal-pairs asks it\n");
  EXPECT_EQ(
      error("export run out --verify --text text.txt"),
      "nystrom: --text: " + model + " tells replaced tokens, and a text has none; leave it out\n");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_EQ(error("export run out --format transformers"),
            "nystrom: " + model +
                ": cannot be exported for transformers' own class: its head tells replaced tokens, "
                "and transformers' Nyströmformer has no such class; leave out --format "
                "transformers, and the folder holds a class that computes it\n");
  EXPECT_EQ(error("export run out --format bert"),
            "nystrom: " + model +
                ": cannot be exported as bert: its attention is nystrom, and that of model_type "
                "bert is exact; leave out --format, and the folder holds a class that computes "
                "it\n");
}

}  // namespace
}  // namespace nystrom::testing
