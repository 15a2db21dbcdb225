// The memory plan compared with the memory that training uses. The plan counts the steps of a GPU,
// with fused Nyström attention; the measurement is on the CPU, with the composed form.
#include "train/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/errors.h"
#include "tests/support/named.h"
#include "train/loop/train_step.h"
#include "train/optim/parameter_groups.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  AttentionKind kind = AttentionKind::nystrom;
  DType dtype = DType::f32;
  bool checkpointing = false;
  OptimizerKind optimizer = OptimizerKind::adamw;
  LayerKinds layers = {};
  std::vector<std::string> frozen = {};
  bool isolated = false;  // documents of 17 tokens, one more than landmarks
};

RunConfig config_of(const Case& c = {""}) {
  RunConfig config;
  config.model.attention.kind = c.kind;
  config.model.attention.layers = c.layers;
  config.model.attention.num_landmarks = 16;
  config.model.attention.conv_kernel_size = 5;
  config.model.attention.projected_length = 16;
  config.model.hidden_size = 96;
  config.model.intermediate_size = 384;
  config.model.num_attention_heads = 4;
  config.model.num_hidden_layers = 6;
  config.model.max_position_embeddings = config.data.sequence_length = 128;
  config.model.vocab_size = 3000;
  config.training.dtype = c.dtype;
  config.training.activation_checkpointing = c.checkpointing;
  config.training.batch_size = config.training.micro_batch_size = 5;
  config.optimizer.name = c.optimizer;
  if (c.isolated) config.data.packing = SequencePacking::isolated;
  for (const std::string& parameters : c.frozen)
    config.optimizer.groups.push_back({parameters, 1, std::nullopt, true});
  return config;
}

/// The peak of live tensors in two steps of the whole model, in bytes.
std::int64_t measured_peak(const RunConfig& config) {
  const std::int64_t b = config.training.micro_batch_size, n = config.data.sequence_length;
  Arena& arena = Arena::of(cpu_device);
  const std::int64_t before = arena.statistics().in_use_bytes;
  Model model(config.model);
  freeze_parameters(model.parameters(), config.optimizer);
  model.parameters().allocate(config.training.dtype, StoreMode::training);
  model.parameters().initialise(1, 0.02);
  Optimizer optimizer(model.parameters(), config.optimizer);
  Batch batch;
  batch.input.input_ids = Tensor::empty({b, n}, DType::i64);
  batch.labels = Tensor::full({b, n}, ignore_index, DType::i64);
  batch.sample_ids = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4}, {5});
  for (std::int64_t i = 0; i < b * n; ++i) {
    batch.input.input_ids.data<std::int64_t>()[i] = 5 + i * 7 % 2900;
    if (i % 20 < 3) batch.labels.data<std::int64_t>()[i] = 5 + i * 11 % 2900;
  }
  batch.tokens = b * n;
  if (config.data.packing == SequencePacking::isolated) {
    batch.input.input_ids = batch.input.input_ids.reshape({b * n});
    batch.labels = batch.labels.reshape({b * n});
    batch.input.offsets = {0};
    std::vector<std::int64_t> ids;
    for (std::int64_t end = 17; batch.input.offsets.back() < b * n; end += 17) {
      batch.input.offsets.push_back(std::min(end, b * n));
      ids.push_back(std::ssize(ids));
    }
    batch.sample_ids = Tensor::from(ids, {std::ssize(ids)});
  }
  Distillation distillation;
  if (config.distillation.teacher) {
    ModelConfig exact = config.model;
    exact.attention.kind = AttentionKind::softmax;
    exact.attention.conv_kernel_size.reset();
    auto teacher = std::make_unique<Model>(exact);
    teacher->parameters().allocate(config.training.dtype, StoreMode::inference);
    teacher->parameters().initialise(2, 0.02);
    distillation = {config.distillation, std::move(teacher)};
  }
  arena.reset_peak();
  StepOptions options;
  if (distillation.teacher) options.distillation = &distillation;
  options.activation_checkpointing = config.training.activation_checkpointing;
  for (options.step = 1; options.step <= 2; ++options.step)
    train_step(model, optimizer, {&batch, 1}, options);
  return arena.statistics().peak_in_use_bytes - before;
}

class MemoryPlanTest : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryPlanTest, IsWithinATenthOfWhatIsMeasured) {
  const RunConfig config = config_of(GetParam());
  const MemoryPlan plan = plan_memory(config, 1);
  const auto planned = static_cast<double>(plan.total(5)),
             measured = static_cast<double>(measured_peak(config));
  EXPECT_NEAR(planned, measured, 0.1 * measured)
      << "fixed " << plan.fixed.total() << ", activations " << plan.activations(5);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, MemoryPlanTest,
    ::testing::Values(Case{"nystrom_f32"},
                      Case{"nystrom_bf16", AttentionKind::nystrom, DType::bf16},
                      Case{"checkpointing", AttentionKind::nystrom, DType::f32, true},
                      Case{"softmax_lamb", AttentionKind::softmax, DType::f32, false,
                           OptimizerKind::lamb},
                      Case{"linformer_f64", AttentionKind::linformer, DType::f64},
                      Case{"mixed_f32",
                           AttentionKind::nystrom,
                           DType::f32,
                           false,
                           OptimizerKind::adamw,
                           {{"0-1", AttentionKind::softmax}, {"5", AttentionKind::reformer}}},
                      Case{"frozen_f32",
                           AttentionKind::nystrom,
                           DType::f32,
                           false,
                           OptimizerKind::adamw,
                           {},
                           {"*.embeddings.*", "*.layer.[0-2].*"}},
                      Case{"frozen_but_for_the_layers",
                           AttentionKind::nystrom,
                           DType::f32,
                           false,
                           OptimizerKind::adamw,
                           {},
                           {"*.embeddings.*", "cls.*"}},
                      Case{"isolated",
                           AttentionKind::nystrom,
                           DType::f32,
                           false,
                           OptimizerKind::adamw,
                           {},
                           {},
                           true}),
    case_name);

MemoryPlan simple_plan() {
  MemoryPlan plan;
  plan.fixed.weights = 1000;
  plan.reduced = 16000;
  plan.flops = 10000;
  plan.last_backward = 5000;
  plan.layers = 2;
  plan.rest[0] = 10;
  plan.rest[1] = 20;
  plan.layer[1] = 40;
  return plan;  // activations are 1010 + 100 b
}

/// Compares the plan with what two steps on a batch of 5 take above the `before` bytes.
void expect_planned(const RunConfig& config, std::int64_t before, const Batch& batch,
                    const std::function<Var(const Model&, RunContext)>& loss) {
  Arena& arena = Arena::of(cpu_device);
  Model model(config.model);
  model.parameters().allocate(DType::f32, StoreMode::training);
  model.parameters().initialise(1, 0.02);
  Optimizer optimizer(model.parameters(), config.optimizer);
  arena.reset_peak();
  StepOptions options;
  const auto of_part = [&](std::size_t, const RunContext& run) { return loss(model, run); };
  for (options.step = 1; options.step <= 2; ++options.step)
    optimizer_step(optimizer, {&batch, 1}, of_part, options);
  const auto measured = static_cast<double>(arena.statistics().peak_in_use_bytes - before);
  EXPECT_NEAR(static_cast<double>(plan_memory(config, 1).total(5)), measured, 0.1 * measured);
}

TEST(MemoryPlan, OfMaskedFeaturesIsWithinATenthOfWhatIsMeasured) {
  RunConfig config = config_of();
  config.model.head = Head::masked_features;
  config.model.norm = Norm::pre;
  config.model.positions = Positions::none;
  config.model.embed_dim = 200;
  const std::int64_t before = Arena::of(cpu_device).statistics().in_use_bytes;
  Batch batch;
  batch.input.features = Tensor::full({5, 128, 200}, 0.5, DType::f32);
  batch.sample_ids = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4}, {5});
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < 5 * 128; ++i)
    if (i % 128 < 19) rows.push_back(i);
  const Tensor targets = Tensor::zeros({std::ssize(rows), 200}, DType::f64);
  expect_planned(config, before, batch, [&](const Model& model, const RunContext& run) {
    return model.masked_features(batch.input, rows, targets, 1, run);
  });
}

/// Plan and measurement of a task, whose loss is the cross-entropy of `labels`.
void expect_planned(RunConfig config, const Tensor& labels) {
  config.task.kind = config.model.embed_dim ? TaskKind::features : TaskKind::tokens;
  config.task.train = {"train.tsv"};
  config.model.head = head_of(*config.task.kind);
  const std::int64_t n = config.data.sequence_length;
  const std::int64_t before = Arena::of(cpu_device).statistics().in_use_bytes;
  Batch batch;
  if (config.model.embed_dim)
    batch.input.features = Tensor::full({5, n, *config.model.embed_dim}, 0.5, DType::f32);
  else
    batch.input.input_ids = Tensor::full({5, n}, 7, DType::i64);
  batch.sample_ids = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4}, {5});
  expect_planned(config, before, batch, [&](const Model& model, RunContext run) {
    run.logits_only = true;
    return classification_loss(model(batch.input, run).logits, labels, 1);
  });
}

TEST(MemoryPlan, OfATaskCountsItsHeadAndItsLabels) {
  RunConfig config = config_of();
  for (int label = 0; label < 1500; ++label) config.task.labels.push_back(std::to_string(label));
  config.model.labels = config.task.labels;
  expect_planned(config, Tensor::full({5, 128}, 1499, DType::i64));
  config.task.kind = TaskKind::tokens;
  config.task.train = {"train.tsv"};
  config.model.head = Head::token_classification;
  const MemoryPlan known = plan_memory(config, 1);
  config.model.labels = ModelConfig{}.labels;
  EXPECT_EQ(plan_memory(config, 1).total(5), known.total(5)) << "as task.labels names them";
}

TEST(MemoryPlan, OfBagsCountsTheirRowsAndTheirPooling) {
  RunConfig config = config_of({"", AttentionKind::none});
  config.model.attention.conv_kernel_size.reset();
  config.model.num_hidden_layers = 1;
  config.model.norm = Norm::pre;
  config.model.positions = Positions::none;
  config.model.pooling = Pooling::attention;
  config.model.embed_dim = 200;
  config.data.sequence_length = 2000;
  expect_planned(config, Tensor::full({5}, 1, DType::i64));
}

/// Of few tokens the matrices of muon take more than the activations.
TEST(MemoryPlan, OfMuonCountsItsStep) {
  RunConfig config = config_of();
  config.optimizer.name = OptimizerKind::muon;
  config.data.sequence_length = 8;
  const MemoryPlan plan = plan_memory(config, 1);
  EXPECT_GT(plan.update, plan.activations(5));
  const auto measured = static_cast<double>(measured_peak(config));
  EXPECT_NEAR(static_cast<double>(plan.total(5)), measured, 0.1 * measured);
}

/// No process has a part of a matrix of muon.
TEST(MemoryPlan, ZeroLeavesTheMatricesOfMuonWhole) {
  RunConfig config = config_of();
  config.model.num_hidden_layers = 1;
  config.model.intermediate_size = 9600;
  config.training.zero = 1;
  const std::int64_t divided = plan_memory(config, 64).fixed.optimizer;
  config.optimizer.name = OptimizerKind::muon;
  const std::int64_t whole = plan_memory(config, 64).fixed.optimizer;
  EXPECT_LT(divided, 2 * 4 * 9600 * 96);
  EXPECT_GE(whole, 2 * 4 * 9600 * 96);
}

TEST(MemoryPlan, FindsTheLargestMicroBatch) {
  const MemoryPlan plan = simple_plan();
  EXPECT_EQ(plan.total(3), 1310);
  EXPECT_EQ(plan.largest_micro_batch(1310, 100), 3);
  EXPECT_EQ(plan.largest_micro_batch(1309, 100), 2);
  EXPECT_EQ(plan.largest_micro_batch(1309000, 7), 7);
  EXPECT_EQ(plan.largest_micro_batch(1100, 7), 0);
  MemoryPlan large;
  large.layers = 24;
  large.layer[1] = 3e8;
  EXPECT_EQ(large.largest_micro_batch(80'000'000'000, 2'000'000'000'000), 11);
}

/// Of a micro-batch of more, a device computes its share of the step alone.
TEST(MemoryPlan, AMicroBatchEndsAtADevicesShare) {
  MemoryPlan plan = simple_plan();
  plan.share = 4;
  EXPECT_EQ(plan.total(5), plan.total(4));
  EXPECT_EQ(plan.total(32), 1000 + 10 + (20 + 40) * 32) << "an evaluation: one layer at a time";
  RunConfig config = config_of();
  config.training.batch_size = config.training.micro_batch_size = 10;
  EXPECT_EQ(plan_memory(config, 3).share, 4) << "of 10, one of three has 4";
  EXPECT_EQ(plan_memory(config, 3).total(5), plan_memory(config, 3).total(4));
}

TEST(MemoryPlan, TheActivationsOfTheRestAreNeverNegative) {
  MemoryPlan plan = simple_plan();
  plan.rest[0] = -1000;
  EXPECT_EQ(plan.activations(10), 0);
  EXPECT_EQ(plan.activations_of_layers(10), 0);
  EXPECT_EQ(plan.activations(20), plan.activations_of_layers(20));
}

TEST(StepTime, ARingSendsToAllButItself) {
  EXPECT_DOUBLE_EQ(plan_time(simple_plan(), 4, 1000, {}).communication, 3.0 / 4 * 16);
  EXPECT_EQ(plan_time(simple_plan(), 1, 1000, {}).communication, 0);
}

TEST(StepTime, CommunicationHidesBehindTheLastBackward) {
  const StepTime slow = plan_time(simple_plan(), 4, 1000, 1000),
                 fast = plan_time(simple_plan(), 4, 1e6, 1000);
  EXPECT_DOUBLE_EQ(*slow.computation, 10);
  EXPECT_DOUBLE_EQ(*slow.step, 10 + 12 - 5);
  EXPECT_DOUBLE_EQ(*fast.step, 10) << "all of it is hidden";
  EXPECT_FALSE(plan_time(simple_plan(), 4, 1000, {}).step.has_value());
}

TEST(StepTime, SharedWeightsGoOnceAndCannotHide) {
  MemoryPlan plan = simple_plan();
  plan.shared = 4000;
  const StepTime time = plan_time(plan, 4, 1000, 1000);
  EXPECT_DOUBLE_EQ(time.communication, 3.0 / 4 * (16 + 4));
  EXPECT_DOUBLE_EQ(*time.step, 10 + (3.0 / 4 * 16 - 5) + 3.0 / 4 * 4);
}

TEST(StepTime, OfAConfiguration) {
  RunConfig config = config_of({"", AttentionKind::nystrom, DType::bf16});
  config.training.batch_size = 40;
  const MemoryPlan exact = plan_memory(config, 4);
  EXPECT_NEAR(exact.flops / exact.last_backward, 3.0 / 2 * 10 / 5, 1e-9);
  EXPECT_EQ(exact.shared, 0);
  config.training.reduction = Reduction::bf16;
  config.training.zero = 1;
  const MemoryPlan rounded = plan_memory(config, 4);
  EXPECT_EQ(4 * rounded.reduced, exact.reduced) << "to owners alone, and half the bytes";
  EXPECT_EQ(rounded.shared, rounded.fixed.weights);
  config.training.batch_size = 28;  // micro-batches of 5 and 2 on each device
  config.training.activation_checkpointing = true;
  const MemoryPlan uneven = plan_memory(config, 4);
  EXPECT_NEAR(uneven.last_backward / exact.last_backward, 2.0 / 5 * 3 / 2, 0.1)
      << "the layers' forward once more, of two sequences";
  config.training.reduction = Reduction::exact;
  config.training.deterministic = true;
  const MemoryPlan ordered = plan_memory(config, 4);
  EXPECT_EQ(ordered.reduced, exact.reduced);
  EXPECT_EQ(ordered.last_backward, 0);
}

TEST(StepFlops, AreTheSumOverTheKindsOfLayers) {
  const auto flops = [](AttentionKind kind, const LayerKinds& layers) {
    const Case run{"", kind, DType::f32, false, OptimizerKind::adamw, layers};
    return step_flops(config_of(run).model, 5, 128, 0.15).layers;
  };
  const double nystrom = flops(AttentionKind::nystrom, {}),
               softmax = flops(AttentionKind::softmax, {});
  EXPECT_NE(nystrom, softmax);
  EXPECT_NEAR(flops(AttentionKind::nystrom, {{"0-1", AttentionKind::softmax}}),
              (4 * nystrom + 2 * softmax) / 6, 1e-9 * nystrom);
}

/// In six layers, for 5 sequences of 128 tokens: a multiply-add counts as two.
TEST(StepFlops, OfNystromLayersFollowTheirOptions) {
  const ModelConfig model = config_of().model;
  const auto more = [&](std::int64_t length, const auto& change) {
    ModelConfig changed = model;
    change(changed.attention);
    return step_flops(changed, 5, length, 1).layers - step_flops(model, 5, length, 1).layers;
  };
  const auto steps = [](AttentionConfig& a) { a.inverse_iterations = 9; };
  const auto exact = [](AttentionConfig& a) { a.inverse = Inverse::exact; };
  const auto window = [](AttentionConfig& a) { a.window = 32; };
  const auto keys = [](AttentionConfig& a) { a.landmark_source = LandmarkSource::keys; };
  const double of_a_step = 2.0 * 6 * (5 * 4) * 4 * 16 * 16 * 16;
  EXPECT_DOUBLE_EQ(more(128, steps), 3 * of_a_step);
  EXPECT_DOUBLE_EQ(more(128, exact), -6 * of_a_step);
  EXPECT_DOUBLE_EQ(more(128, window), 2.0 * 6 * (5 * 128 * 96) * 2 * 33);
  EXPECT_DOUBLE_EQ(more(128, keys), -2.0 * 6 * (5 * 16) * 96 * 96);
  EXPECT_EQ(more(16, steps), 0) << "attention to all tokens, as they are no more than landmarks";
  EXPECT_DOUBLE_EQ(more(16, window), 2.0 * 6 * (5 * 16 * 96) * 2 * 16) << "beside it";
}

TEST(StepTime, IsThatOfTheDeviceWithMost) {
  RunConfig config = config_of();
  const auto plan_of = [&](std::int64_t batch) {
    config.training.batch_size = batch;
    return plan_memory(config, 4);
  };
  const MemoryPlan uneven = plan_of(5), even = plan_of(8);
  EXPECT_EQ(uneven.flops, even.flops) << "one of the four has two sequences";
  EXPECT_EQ(uneven.last_backward, even.last_backward);
  EXPECT_EQ(uneven.flops, 2 * plan_of(4).flops);
}

/// The products of the head are 2 · tokens · (hidden · width + width · words).
TEST(StepFlops, ANarrowEmbeddingHasANarrowHead) {
  ModelConfig model = config_of().model;
  const StepFlops wide = step_flops(model, 5, 128, 0.5);
  model.embedding_size = 32;
  const StepFlops narrow = step_flops(model, 5, 128, 0.5);
  EXPECT_DOUBLE_EQ(wide.head, 5 * 128 * 96 * (96 + 3000));
  EXPECT_DOUBLE_EQ(narrow.head, 5 * 128 * 32 * (96 + 3000));
  EXPECT_DOUBLE_EQ(narrow.layers - wide.layers, 2 * 5 * 128 * 32 * 96) << "the projection";
}

TEST(StepFlops, AreNeverFewerThanNone) {
  ModelConfig model = config_of().model;
  model.num_hidden_layers = 0;
  EXPECT_EQ(step_flops(model, 5, 128, 0.15).layers, 0);
  EXPECT_DOUBLE_EQ(step_flops(model, 5, 128, 0.5).head, 5 * 128 * 96 * (96 + 3000));
}

TEST(StepFlops, OfBagsCountTheProjectionAndTheGates) {
  ModelConfig model = config_of().model;
  model.num_hidden_layers = 0;
  model.head = Head::sequence_classification;
  model.pooling = Pooling::attention;
  model.embed_dim = 96;
  const StepFlops flops = step_flops(model, 5, 128, 0);
  EXPECT_DOUBLE_EQ(flops.layers, 2.0 * 5 * 128 * 96 * 96);
  EXPECT_DOUBLE_EQ(flops.head, 2.0 * 5 * 128 * (128 * (96 + 96 + 1) + 96));
}

TEST(MemoryPlan, CountsTheSequencesOfASample) {
  RunConfig config = config_of();
  config.task.train = {"train.tsv"};
  config.model.pooling = Pooling::mean;  // which reads all tokens, as the vectors do
  config.training.batch_size = 60;
  const auto plan_of = [&](TaskKind kind) {
    config.task.kind = kind;
    config.model.head = head_of(kind);
    return plan_memory(config, 1);
  };
  const auto expect_near = [](std::int64_t a, std::int64_t b) {
    EXPECT_NEAR(static_cast<double>(a), static_cast<double>(b), 0.03 * static_cast<double>(b));
  };
  const MemoryPlan one = plan_of(TaskKind::regression);
  expect_near(plan_of(TaskKind::embeddings).activations(3), one.activations(6));
  EXPECT_EQ(plan_of(TaskKind::embeddings).flops, 2 * one.flops);
  config.task.columns.negatives = {"other"};
  expect_near(plan_of(TaskKind::embeddings).activations(2), one.activations(6));
  config.task.columns = {};
  config.task.columns.choices = {"a", "b", "c", "d", "e"};
  expect_near(plan_of(TaskKind::choice).activations(2), one.activations(10));
}

TEST(MemoryPlan, CountsATeacher) {
  for (const bool checkpointing : {false, true}) {
    RunConfig config = config_of({"", AttentionKind::nystrom, DType::f32, checkpointing});
    config.distillation.teacher = "teacher";
    const auto planned = static_cast<double>(plan_memory(config, 1).total(5)),
               measured = static_cast<double>(measured_peak(config));
    EXPECT_NEAR(planned, measured, 0.1 * measured) << "checkpointing " << checkpointing;
  }
}

TEST(MemoryPlan, ATeacherThatHasEndedCostsNothingInLongSequences) {
  RunConfig config = config_of();
  config.data.length_schedule = {{"0", 16}, {"10", 128}};
  const MemoryPlan alone = plan_memory(config, 1);
  config.distillation.teacher = "teacher";
  const MemoryPlan always = plan_memory(config, 1);
  config.distillation.until_step = 10;
  const MemoryPlan at_first = plan_memory(config, 1);
  EXPECT_LT(at_first.flops, always.flops);
  EXPECT_GE(at_first.flops, alone.flops);
  EXPECT_LT(at_first.activations(5), always.activations(5));
}

TEST(MemoryPlan, WhatIsTrainedMayLieOutsideOfThePass) {
  RunConfig config = config_of({"",
                                AttentionKind::nystrom,
                                DType::f32,
                                false,
                                OptimizerKind::adamw,
                                {},
                                {"nystromformer*"}});
  config.task.kind = TaskKind::embeddings;
  config.model.head = Head::none;
  config.model.embedding.projection = 4;
  EXPECT_GT(plan_memory(config, 1).activations(5), 0);
}

TEST(MemoryPlan, CountsTheTeachersOwnShape) {
  RunConfig config = config_of();
  config.distillation.teacher = "teacher";
  config.distillation.attention_output = 0;
  ModelConfig wide = config.model.with_exact_attention();
  wide.hidden_size *= 32;
  wide.intermediate_size *= 32;
  wide.attention.window = 8;
  wide.attention.window_layers = {"1"};
  const MemoryPlan alike = plan_memory(config, 1), other = plan_memory(config, 1, wide);
  EXPECT_EQ(other.fixed.teacher, Model(wide).parameters().slab_size() * size_of(DType::f32));
  EXPECT_GT(other.flops, 2 * alike.flops);
  EXPECT_GT(other.activations(5), alike.activations(5));
}

TEST(MemoryPlan, CountsTheShortSequencesOfTheFirstStage) {
  RunConfig config = config_of();
  const std::int64_t without = plan_memory(config, 1).total(5);
  config.data.length_schedule = {{"0", 16}, {"1", 128}};
  const auto planned = static_cast<double>(plan_memory(config, 1).total(5));
  EXPECT_GE(planned, static_cast<double>(without));
  RunConfig first = config;
  first.data.length_schedule.clear();
  first.data.sequence_length = 16;
  first.training.batch_size = first.training.micro_batch_size = 8 * 5;
  EXPECT_GE(1.1 * planned, static_cast<double>(plan_memory(first, 1).total(40)));
}

TEST(MemoryPlan, ZeroSpreadsMomentsAndMasters) {
  RunConfig config = config_of({"", AttentionKind::nystrom, DType::bf16});
  const MemoryPlan whole = plan_memory(config, 4);
  config.training.zero = 1;
  const MemoryPlan spread = plan_memory(config, 4);
  EXPECT_NEAR(static_cast<double>(spread.fixed.optimizer),
              static_cast<double>(whole.fixed.optimizer) / 4, 128);
  EXPECT_NEAR(static_cast<double>(spread.fixed.masters),
              static_cast<double>(whole.fixed.masters) / 4, 64);
  EXPECT_EQ(spread.fixed.total() - spread.fixed.optimizer - spread.fixed.masters,
            whole.fixed.total() - whole.fixed.optimizer - whole.fixed.masters);
}

TEST(MemoryPlan, F16TakesWhatBf16Takes) {
  RunConfig config = config_of({"", AttentionKind::nystrom, DType::bf16});
  const auto expected = bytes_by_part(plan_memory(config, 4), 5);
  config.training.dtype = DType::f16;
  EXPECT_EQ(bytes_by_part(plan_memory(config, 4), 5), expected);
}

TEST(MemoryPlan, ReadsSizes) {
  EXPECT_EQ(parse_amount("--memory", "80G"), 80000000000);
  EXPECT_EQ(parse_amount("--memory", "1.5M"), 1500000);
  for (const std::string text : {"", "80", "G", "80GB", "-1G", "0G", "80 G", "nanG"}) {
    EXPECT_EQ(message_of([&] { parse_amount("--memory", text); }),
              "--memory " + text + ": expected a number with K, M, G or T, such as 80G")
        << text;
  }
}

}  // namespace
}  // namespace nystrom::testing
