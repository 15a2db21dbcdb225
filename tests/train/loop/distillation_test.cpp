// Distillation: its losses by their definition, gradients against numerical ones, and the same
// results for micro-batches, activation checkpointing and padding.
#include "train/loop/distillation.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/gradcheck.h"
#include "tests/support/models.h"
#include "train/loop/train_step.h"

namespace nystrom::testing {
namespace {

ModelConfig student_config() {
  ModelConfig config = masked_lm_config();
  config.hidden_dropout_prob = 0;
  return config;
}

ModelConfig teacher_config() {
  ModelConfig config = student_config();
  config.attention.kind = AttentionKind::softmax;
  config.attention.conv_kernel_size.reset();
  return config;
}

Distillation distillation_of(double logits, double attention_output, DType dtype = DType::f64) {
  DistillationConfig config;
  config.teacher = "teacher";
  config.logits = logits;
  config.attention_output = attention_output;
  config.temperature = 3;
  auto teacher = make_model(teacher_config(), dtype, 3);
  for (const Parameter& parameter : teacher->parameters().parameters()) {
    // Otherwise it would have the student's weights.
    Tensor values = weights_of(parameter, 3);
    const Tensor other = random_normal(parameter.shape(), hash_of(parameter.name()) + 1, 0.2);
    kernels::accumulate(other, 1, values);
    teacher->parameters().set(parameter.name(), values);
  }
  return {config, std::move(teacher)};
}

const std::vector<std::string> rows = {"11111111", "11111100", "11111110", "11110000"};

/// A batch of rows `begin` … `end` − 1 as one micro-batch.
Batch batch_of(std::size_t begin, std::size_t end) {
  const Layout layout{{rows.begin() + static_cast<std::ptrdiff_t>(begin),
                       rows.begin() + static_cast<std::ptrdiff_t>(end)}};
  const ModelConfig config = student_config();
  Layout whole{rows};
  const ModelInput input = input_of(config, whole);
  const auto part = [&](const Tensor& x) {
    return x.slice(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end))
        .contiguous();
  };
  Batch batch;
  const Tensor mask = part(input.attention_mask);
  batch.input = without_padding({part(input.input_ids), {}, mask, part(input.token_type_ids)});
  Tensor labels = Tensor::full({4, 8}, ignore_index, DType::i64);
  for (const auto& [place, label] :
       {std::pair(1, 3), std::pair(6, 4), std::pair(9, 5), std::pair(12, 2), std::pair(20, 7)})
    labels.data<std::int64_t>()[place] = label;
  std::vector<std::int64_t> of_tokens;
  const Tensor own = part(labels);
  for (std::int64_t i = 0; i < own.numel(); ++i)
    if (mask.data<std::uint8_t>()[i] != 0) of_tokens.push_back(own.data<std::int64_t>()[i]);
  batch.labels = Tensor::from(of_tokens, {std::ssize(of_tokens)});
  batch.sample_ids = part(Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3}, {4}));
  for (std::size_t i = begin; i < end; ++i)
    batch.tokens += std::count(rows[i].begin(), rows[i].end(), '1');
  return batch;
}

struct Result {
  StepResult step;
  std::vector<double> gradients;
};

/// One step of the student; its gradients are unclipped.
Result step_of(Model& student, const Distillation* distillation, std::size_t parts,
               bool checkpointing = false) {
  std::vector<Batch> batches;
  for (std::size_t part = 0; part < parts; ++part)
    batches.push_back(batch_of(part * 4 / parts, (part + 1) * 4 / parts));
  Optimizer optimizer(student.parameters(), OptimizerOptions{});
  StepOptions options;
  options.learning_rate = 0;
  options.activation_checkpointing = checkpointing;
  options.distillation = distillation;
  Result result{train_step(student, optimizer, batches, options), {}};
  result.gradients = student.parameters().gradients().to_doubles();
  return result;
}

double figure(const StepResult& step, const std::string& name) {
  for (const auto& [each, value] : step.figures)
    if (each == name) return value;
  throw Error("no figure " + name);
}

TEST(Distillation, GradientsAreThoseOfTheLoss) {
  const Distillation distillation = distillation_of(0.7, 0.4);
  const auto student = make_model(student_config(), DType::f64);
  const Result result = step_of(*student, &distillation, 2);
  std::map<std::string, Tensor> analytic;
  for (const char* name : {"nystromformer.embeddings.LayerNorm.weight",
                           "nystromformer.encoder.layer.0.attention.self.query.bias",
                           "nystromformer.encoder.layer.0.attention.output.dense.bias",
                           "nystromformer.encoder.layer.1.attention.self.conv.weight",
                           "nystromformer.encoder.layer.1.attention.output.dense.bias"})
    analytic[name] = student->parameters().gradient(name).clone();
  for (const auto& [name, gradient] : analytic) {
    const Tensor numerical =
        numerical_gradient([&] { return step_of(*student, &distillation, 2).step.loss; },
                           student->parameters().master(name));
    EXPECT_LE(max_difference(gradient, numerical), 1e-8) << name;
  }
  EXPECT_EQ(result.step.figures.size(), 3U);
}

/// In torch 2.15: T * T * kl_div(log_softmax(s / T, 1), softmax(t / T, 1), reduction="batchmean").
TEST(Distillation, TheLossOfPredictionsIsPyTorchs) {
  const Shape shape{3, 4};
  const Var student = Var::leaf(
      Tensor::from(std::vector<double>{0.5, -1, 2, 0.25, 1.5, 0, -0.5, -3, -2, 1, 0.75, 4}, shape));
  const Tensor teacher =
      Tensor::from(std::vector<double>{1, -0.5, 0.5, 2, -1, 2.5, 0, 0.5, -2, 1.5, 0.25, 3}, shape);
  Tape tape;
  const Var loss = distillation_loss(student, teacher, 2, 3);
  tape.backward(loss);
  EXPECT_NEAR(loss.value().item(), 1.0226102979725984, 1e-14);
  const Tensor expected = Tensor::from(
      std::vector<double>{-0.021864771724620737, -0.01032818684602831, 0.18247081752968425,
                          -0.15027785895903517, 0.27927614052191896, -0.20281145078468635,
                          0.021573766272670714, -0.09803845600990337, -0.007697403610537855,
                          -0.07304017690884088, -0.003953763630621981, 0.08469134415000061},
      shape);
  EXPECT_LE(max_difference(student.grad(), expected), 1e-15);
}

/// The losses by their definition, from outputs of single passes.
TEST(Distillation, LossesFollowTheDefinition) {
  const Distillation distillation = distillation_of(0.7, 0.4);
  const auto student = make_model(student_config(), DType::f64);
  const Batch batch = batch_of(0, 4);
  const std::vector<std::int64_t> masked = {1, 6, 9, 12, 18};  // of 8 + 6 + 7 + 4 tokens
  std::vector<Tensor> outputs[2];
  Tensor logits[2];
  const Model* models[] = {student.get(), distillation.teacher.get()};
  for (int i = 0; i < 2; ++i) {
    RunContext run;
    run.observe_attention_output = [&](std::int64_t, Var& output) {
      outputs[i].push_back(output.value().clone());
    };
    logits[i] = models[i]->masked_lm_logits(batch.input, masked, run).value();
  }
  double divergence = 0;
  const std::int64_t vocab = student->config().vocab_size;
  for (std::int64_t row = 0; row < 5; ++row) {
    const auto probabilities = [&](const Tensor& x) {
      std::vector<double> p;
      double sum = 0;
      for (std::int64_t i = 0; i < vocab; ++i) {
        p.push_back(std::exp(x.data<double>()[row * vocab + i] / 3));
        sum += p.back();
      }
      for (double& value : p) value /= sum;
      return p;
    };
    const auto p = probabilities(logits[1]), q = probabilities(logits[0]);
    for (std::size_t i = 0; i < p.size(); ++i) divergence += p[i] * std::log(p[i] / q[i]);
  }
  const double width = 6, tokens = 8 + 6 + 7 + 4;
  double squares[2] = {};
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const auto s = outputs[0][layer].to_doubles(), t = outputs[1][layer].to_doubles();
    ASSERT_EQ(s.size(), (layer == 0 ? tokens : 5) * width) << "rows without padding";
    for (std::size_t i = 0; i < s.size(); ++i) squares[layer] += (s[i] - t[i]) * (s[i] - t[i]);
  }
  const double attention = squares[0] / (tokens * width) + squares[1] / (5 * width);
  const StepResult step = step_of(*student, &distillation, 1).step;
  const double alone = step_of(*student, nullptr, 1).step.loss;
  EXPECT_NEAR(figure(step, "masked_lm_loss"), alone, 1e-12);
  EXPECT_NEAR(figure(step, "distillation_logits"), 9 * divergence / 5, 1e-12);
  EXPECT_NEAR(figure(step, "distillation_attention_output"), attention, 1e-12);
  EXPECT_NEAR(step.loss, alone + 0.7 * 9 * divergence / 5 + 0.4 * attention, 1e-12);
}

TEST(Distillation, MicroBatchesAndCheckpointingChangeNothing) {
  const Distillation distillation = distillation_of(0.7, 0.4);
  const auto student = make_model(student_config(), DType::f64);
  const Result whole = step_of(*student, &distillation, 1);
  for (const auto& [parts, checkpointing] :
       {std::pair(2, false), std::pair(4, false), std::pair(1, true), std::pair(4, true)}) {
    const Result other =
        step_of(*student, &distillation, static_cast<std::size_t>(parts), checkpointing);
    EXPECT_NEAR(other.step.loss, whole.step.loss, 1e-12);
    EXPECT_NEAR(figure(other.step, "distillation_logits"),
                figure(whole.step, "distillation_logits"), 1e-12);
    EXPECT_NEAR(figure(other.step, "distillation_attention_output"),
                figure(whole.step, "distillation_attention_output"), 1e-12);
    for (std::size_t i = 0; i < whole.gradients.size(); ++i)
      ASSERT_NEAR(other.gradients[i], whole.gradients[i], 1e-12) << i;
  }
}

TEST(Distillation, AStudentThatIsItsTeacherHasNoLossAgainstIt) {
  const Distillation distillation = distillation_of(1, 1);
  const auto student = make_model(teacher_config(), DType::f64);
  for (const Parameter& parameter : student->parameters().parameters())
    student->parameters().set(parameter.name(),
                              distillation.teacher->parameters().master(parameter.name()));
  const Result with = step_of(*student, &distillation, 2), without = step_of(*student, nullptr, 2);
  EXPECT_NEAR(figure(with.step, "distillation_logits"), 0, 1e-12);
  EXPECT_EQ(figure(with.step, "distillation_attention_output"), 0);
  for (std::size_t i = 0; i < with.gradients.size(); ++i)
    ASSERT_NEAR(with.gradients[i], without.gradients[i], 1e-12) << i;
}

TEST(Distillation, ATeacherMayHaveAnotherShapeForItsPredictionsAlone) {
  DistillationConfig config;
  config.attention_output = 0;
  ModelConfig shape = teacher_config();
  shape.num_hidden_layers = 1;
  shape.hidden_size = 4;
  const Distillation distillation{config, make_model(shape, DType::f32)};
  const auto student = make_model(student_config(), DType::f32);
  const StepResult step = step_of(*student, &distillation, 2).step;
  EXPECT_GT(figure(step, "distillation_logits"), 0);
  EXPECT_EQ(figure(step, "distillation_attention_output"), 0);
}

/// Frozen layers below: the backward pass ends there, and checkpointing still finds the others.
TEST(FrozenParameters, LeaveTheGradientsOfTheOthersAsTheyAre) {
  const auto all = make_model(student_config(), DType::f64);
  const Result expected = step_of(*all, nullptr, 2);
  for (const bool checkpointing : {false, true}) {
    Model model(student_config());
    OptimizerOptions options;
    for (const Parameter& parameter : model.parameters().parameters())
      if (parameter.name().starts_with("nystromformer.embeddings.") ||
          parameter.name().find(".layer.0.") != std::string::npos)
        model.parameters().freeze(parameter.name());
    model.parameters().allocate(DType::f64, StoreMode::training);
    for (const Parameter& parameter : model.parameters().parameters())
      model.parameters().set(parameter.name(), weights_of(parameter, 2));
    const Result result = step_of(model, nullptr, 2, checkpointing);
    EXPECT_EQ(result.step.loss, expected.step.loss);
    double squares = 0;
    for (const Parameter& parameter : model.parameters().parameters()) {
      const Tensor gradient = model.parameters().gradient(parameter.name());
      if (parameter.is_frozen()) {
        EXPECT_EQ(largest(gradient), 0) << parameter.name();
        continue;
      }
      EXPECT_LE(max_difference(gradient, all->parameters().gradient(parameter.name())), 1e-14)
          << parameter.name();
      for (const double g : gradient.to_doubles()) squares += g * g;
    }
    EXPECT_NEAR(result.step.gradient_norm, std::sqrt(squares), 1e-12);
  }
}

}  // namespace
}  // namespace nystrom::testing
