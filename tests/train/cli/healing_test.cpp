// Training on after a conversion: growing lengths, parameter groups and distillation in one run. It
// resumes to the same bits, in any number of processes, and refuses teachers that do not suit it.
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/file_io.h"
#include "tests/support/golden.h"
#include "tests/support/mpirun.h"
#include "tests/support/program_test.h"
#include "tests/support/small_text.h"
#include "tests/support/tiny_checkpoint.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

class HealingTest : public ProgramTest {
 protected:
  /// Makes a parent with 16 positions, a converted model with 32, and the configuration of a run.
  void SetUp() override {
    write_small_text(folder_ / "text.txt");
    write_lines(folder_ / "held.txt", tiny_lines(30, 5));
    ModelConfig parent = tiny_exact_lm();
    parent.max_position_embeddings = 16;
    const TinyCheckpoint made(folder_ / "parent", parent);
    run("convert parent turned --landmarks 3 --conv 3 --length 32 --quiet --threads 1");
    std::ofstream(folder_ / "run.yaml")
        << "model: {from: turned}\n"
           "data: {train: [text.txt], validation: [held.txt], sequence_length: 32, cache: cache,\n"
           "       length_schedule: {0: 8, 9: 16, 15: 32}}\n"
           "optimizer:\n"
           "  learning_rate: 1.0e-3\n"
           "  layer_decay: 0.9\n"
           "  groups:\n"
           "    - {parameters: '*.conv.weight', learning_rate_factor: 10, weight_decay: 0}\n"
           "    - {parameters: 'nystromformer.embeddings.*', freeze: true}\n"
           "    - {parameters: '*.position_embeddings.weight', learning_rate_factor: 3}\n"
           "distillation: {teacher: parent, until_step: 15}\n"
           "schedule: {warmup_steps: 2, decay: constant}\n"
           "training: {steps: 20, batch_size: 8, batch_schedule: {0: 4, 12: 8}, micro_batch_size: "
           "2,\n"
           "           dtype: f32, ema: 0.9, deterministic: true}\n"
           "evaluation: {every: 10}\n"
           "checkpoint: {every: 5, keep: 9}\n"
           "logging: {every: 1, tensorboard: false}\n";
  }

  static std::string words(const std::string& run_dir, const std::string& sets) {
    std::string text = "pretrain run.yaml --threads 1 --set run_dir=" + run_dir;
    std::istringstream list(sets);
    for (std::string set; list >> set;) text += " --set '" + set + "'";
    return text;
  }
  Outcome train(const std::string& run_dir, const std::string& sets = "", int processes = 1) {
    const std::string launcher =
        processes == 1 ? "" : mpirun + "-np " + std::to_string(processes) + " ";
    return run_command(folder_, launcher + program_word() + words(run_dir, sets));
  }
  std::string checksum(const std::string& run_dir, const std::string& file = "model.safetensors") {
    return file_checksum(folder_ / run_dir / "checkpoints" / "step-20" / file);
  }
};

TEST_F(HealingTest, RecordsTheTeachersLossesWhileThereIsOne) {
  succeeded(train("run"));
  const std::string log = read_bytes(folder_ / "run" / "log.txt");
  expect_says(log, "step 10: 8 sequences of 16 tokens a step from here on");
  expect_says(log, "step 13: 16 sequences of 16 tokens a step from here on");
  expect_says(log, "step 16: 8 sequences of 32 tokens a step, without the teacher from here on");
  const auto loss = metric("run", "loss"), masked_lm = metric("run", "masked_lm_loss"),
             logits = metric("run", "distillation_logits"),
             attention = metric("run", "distillation_attention_output");
  ASSERT_EQ(loss.size(), 20u);
  ASSERT_EQ(masked_lm.size(), 15u);
  for (std::size_t i = 0; i < masked_lm.size(); ++i) {
    EXPECT_NEAR(loss[i], masked_lm[i] + logits[i] + attention[i], 1e-5 * loss[i]);
    EXPECT_GT(attention[i], 0) << "sequences are longer than the landmarks";
  }
}

TEST_F(HealingTest, FrozenWeightsKeepTheirBits) {
  succeeded(train("run", "training.dtype=bf16"));
  const auto before = read_tensors(folder_ / "turned" / "model.safetensors"),
             after = read_tensors(folder_ / "run" / "checkpoints/step-20/model.safetensors");
  for (const auto& [name, values] : before) {
    const bool frozen = name.starts_with("nystromformer.embeddings.") &&
                        name.find("position_embeddings") == name.npos;
    EXPECT_EQ(values.to_doubles() == after.at(name).to_doubles(), frozen) << name;
  }
}

/// Killed after the checkpoints at the ends of stages, and at others.
TEST_F(HealingTest, ResumesToTheSameBits) {
  for (const std::string dtype : {"f32", "bf16"}) {
    const std::string sets = "checkpoint.every=3 training.dtype=" + dtype, cut = dtype + "-cut";
    succeeded(train(dtype, sets));
    for (const std::string step : {"6", "9", "12", "15"})
      ended_at(start_command(folder_, program_word() + words(cut, sets)),
               folder_ / cut / "checkpoints" / ("step-" + step), SIGKILL);
    succeeded(train(cut, sets));
    EXPECT_EQ(checksum(cut), checksum(dtype));
    EXPECT_EQ(checksum(cut, "optimizer.safetensors"), checksum(dtype, "optimizer.safetensors"));
  }
}

TEST_F(HealingTest, CheckpointingAndLambTrainToo) {
  succeeded(train("plain"));
  succeeded(train("again", "training.activation_checkpointing=true"));
  EXPECT_EQ(checksum("again"), checksum("plain"));
  EXPECT_EQ(metric("again", "distillation_attention_output"),
            metric("plain", "distillation_attention_output"));
  succeeded(train("lamb", "optimizer.name=lamb training.dtype=bf16"));
}

TEST_F(HealingTest, AnyNumberOfProcessesGivesTheSameBits) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  succeeded(train("alone"));
  for (const std::string zero : {"0", "1"}) {
    succeeded(train("together" + zero, "training.zero=" + zero, 2));
    EXPECT_EQ(checksum("together" + zero), checksum("alone"));
    for (const char* name : {"loss", "masked_lm_loss", "distillation_logits",
                             "distillation_attention_output", "grad_norm", "validation_loss"})
      EXPECT_EQ(metric("together" + zero, name), metric("alone", name)) << name;
  }
}

TEST_F(HealingTest, AResumedRunHasItsTeacher) {
  succeeded(train("run"));
  ModelConfig parent = tiny_exact_lm();
  parent.max_position_embeddings = 16;
  const auto other = make_model(parent, DType::f32, 1);
  write_safetensors(folder_ / "parent" / "model.safetensors", weight_tensors(*other));
  expect_says(refused(train("run", "training.steps=22")),
              "run: its checkpoints had another teacher; bring the files of distillation.teacher "
              "back as they were, or choose another run_dir\n");
}

TEST_F(HealingTest, UnsuitableTeachersAreRefusedBeforeTheRun) {
  const auto teacher = [&](const char* name, const auto& change) {
    ModelConfig config = tiny_exact_lm();
    change(config);
    const TinyCheckpoint made(folder_ / name, config);
  };
  teacher("shallow", [](ModelConfig& c) { c.num_hidden_layers = 1; });
  teacher("wide", [](ModelConfig& c) { c.vocab_size = 40; });
  teacher("head", [](ModelConfig& c) { c.head = Head::sequence_classification; });
  teacher("nystrom", [](ModelConfig& c) { c.attention.kind = AttentionKind::nystrom; });
  teacher("words", [](ModelConfig&) {});
  std::string vocabulary = read_bytes(folder_ / "words" / "tokenizer.json");
  const std::size_t at = vocabulary.find("\"▁sea\"");
  ASSERT_NE(at, vocabulary.npos);
  write_bytes(folder_ / "words" / "tokenizer.json",
              vocabulary.replace(at, std::string("\"▁sea\"").size(), "\"▁tea\""));
  struct Wrong {
    std::string sets, message;
  };
  const std::vector<Wrong> cases = {
      {"distillation.teacher=nowhere",
       "distillation.teacher: nowhere: no such folder; expected a Hugging Face folder, a run "
       "directory or a checkpoint; a model of the hub is fetched by: hf download nowhere"},
      {"distillation.teacher=turned",
       "distillation.teacher: turned: its attention is nystrom; a teacher has exact attention, "
       "softmax: name the folder from which the model was converted"},
      {"distillation.teacher=nystrom",
       "distillation.teacher: nystrom: its attention is nystrom; a teacher has exact attention, "
       "softmax: name the folder from which the model was converted"},
      {"distillation.teacher=head",
       "distillation.teacher: head: is a NystromformerForSequenceClassification; expected a masked "
       "language model, NystromformerForMaskedLM"},
      {"distillation.teacher=words",
       " is '▁tea' in its tokenizer, '▁sea' in the run's; teacher and student need one vocabulary: "
       "name another teacher, or its folder as tokenizer.path"},
      {"distillation.teacher=wide",
       "distillation.teacher: wide: it predicts 40 tokens, the model 36; by transformers' "
       "resize_token_embeddings give both 40"},
      {"distillation.teacher=shallow",
       "distillation.teacher: shallow: it has 1 layers of width 6, the model 2 of width 6; "
       "distillation.attention_output compares layer with layer: set it to 0, or name another "
       "teacher"},
      {"distillation.until_step=16",
       "distillation.teacher: parent: it takes at most 16 tokens, the sequences have 32 after 15 "
       "steps; set distillation.until_step to 15"},
      {"data.length_schedule={}",
       "distillation.teacher: parent: it takes at most 16 tokens, the sequences have 32; begin "
       "with shorter ones in data.length_schedule, and end with the teacher before they grow, by "
       "distillation.until_step"},
  };
  for (const Wrong& wrong : cases) {
    expect_says(refused(train("refused", wrong.sets)), wrong.message + "\n");
    EXPECT_FALSE(fs::exists(folder_ / "refused"));
    expect_says(refusal("check run.yaml --set '" + wrong.sets + "'"), wrong.message + "\n");
  }
}

/// What convert takes as a parent is also a teacher.
TEST_F(HealingTest, TransformersExactNystromformerIsATeacher) {
  ModelConfig config = tiny_masked_lm();
  config.attention.conv_kernel_size.reset();
  config.attention.semantics = Semantics::transformers;
  config.segment_means_seq_len = config.attention.num_landmarks;
  const TinyCheckpoint made(folder_ / "exact", config);
  run("check run.yaml --threads 1 --set distillation.teacher=exact --set distillation.until_step=9 "
      "--set data.length_schedule='{0: 8, 9: 32}'");
}

TEST_F(HealingTest, CheckTellsTheStagesAndTheTeachersMemory) {
  run("check run.yaml --threads 1 --memory 1G");
  expect_says(last_.out,
              "  from step 1: 16 sequences of at most 8 tokens\n"
              "  from step 10: 8 sequences of at most 16 tokens\n"
              "  from step 13: 16 sequences of at most 16 tokens\n"
              "  from step 16: 8 sequences of at most 32 tokens\n");
  expect_says(last_.out, "\n  teacher ");
}

}  // namespace
}  // namespace nystrom::testing
