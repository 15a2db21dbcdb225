#include "train/plan/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "nn/model.h"
#include "train/loop/distillation.h"
#include "train/optim/optimizer.h"
#include "train/optim/parameter_groups.h"

namespace nystrom {
namespace {

/// A run, and the shape of its teacher where that is known; else it has the model's.
struct PlannedRun : RunConfig {
  std::optional<ModelConfig> teacher = {};
};

/// Steps are taken on a planned GPU: their tensors have sizes, but neither memory nor values.
constexpr Device nowhere{Device::Kind::planned};

/// The type of planned steps: f16 has the same size as bf16.
DType computed_type(const RunConfig& config) {
  const DType dtype = config.training.dtype;
  return dtype == DType::f16 ? DType::bf16 : dtype;
}

void allocate_nowhere(ParameterStore& store, DType dtype, StoreMode mode) {
  store.allocate(dtype, mode, nowhere);
  for (const Parameter& each : store.parameters())
    store.set(each.name(), Tensor::empty(each.shape(), DType::f32, nowhere));
}

/// A batch with the shape of the longest batch in the run. The values of the ids do not
/// matter: 0 is in every vocabulary.
ModelInput input_of(const RunConfig& config, std::int64_t sequences) {
  const std::int64_t length = config.data.sequence_length;
  ModelInput input;
  if (config.model.embed_dim) {
    input.features =
        Tensor::full({sequences, length, *config.model.embed_dim}, 0.5, DType::f32, nowhere);
  } else {
    input.input_ids = Tensor::full({sequences, length}, 0, DType::i64);
  }
  return input;
}

Tensor labels_of(const RunConfig& config, std::int64_t sequences) {
  const std::int64_t length = config.data.sequence_length;
  Tensor labels = Tensor::full({sequences, length}, ignore_index, DType::i64);
  const auto asked = std::max<std::int64_t>(
      1, std::llround(config.masking.probability.largest() * static_cast<double>(length)));
  for (std::int64_t row = 0; row < sequences; ++row)
    std::fill_n(labels.data<std::int64_t>() + row * length, asked, 0);
  return labels;
}

/// Cuts the sequences of a batch into isolated ones of one token more than landmarks: documents
/// that share a place have landmarks of their own, and of these there can be no more.
void isolate(Batch& batch, std::int64_t landmarks) {
  const Shape before = batch.input.input_ids.shape();
  batch.input.offsets = {0};
  for (std::int64_t row = 0; row < before[0]; ++row)
    for (std::int64_t end = 0; end < before[1];) {
      end = std::min(before[1], end + landmarks + 1);
      batch.input.offsets.push_back(row * before[1] + end);
    }
  batch.input.input_ids = batch.input.input_ids.reshape({before.numel()});
  batch.labels = batch.labels.reshape({before.numel()});
}

/// The teacher, which has exact attention; nothing in a run without one.
Distillation teacher_of(const PlannedRun& config, DType dtype) {
  if (!config.distillation.teacher) return {};
  ModelConfig shape = config.teacher.value_or(config.model).with_exact_attention();
  shape.attention.conv_kernel_size.reset();
  auto teacher = std::make_unique<Model>(shape);
  allocate_nowhere(teacher->parameters(), dtype, StoreMode::inference);
  return {config.distillation, std::move(teacher)};
}

/// The backward pass from ones. There is none where what is trained lies outside of the forward
/// pass: in layers of vectors, say.
void differentiate(Tape& tape, const Var& result) {
  if (result.requires_grad())
    tape.backward(result, Tensor::full(result.shape(), 1, result.dtype(), nowhere));
}

/// Forward and backward pass of a masked language model.
void pretraining_pass(const Model& model, const Distillation& distillation, const Batch& batch,
                      RunContext run) {
  Tape tape;
  Var loss;
  std::optional<DistillationPass> pass;
  if (distillation.teacher) {
    pass.emplace(distillation, batch, StepTotals{1, 1, 1});
    pass->observe(run);
  }
  {
    const MaskedLmOutput out = model.masked_lm(batch.input, batch.labels, 1, run);
    loss = pass ? pass->loss(out) : out.loss;
  }
  differentiate(tape, loss);
}

/// The same of a model that says masked rows of features.
void features_pass(const Model& model, const Batch& batch, const RunContext& run) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < batch.labels.numel(); ++i)
    if (batch.labels.data<std::int64_t>()[i] != ignore_index) rows.push_back(i);
  Tape tape;
  const Tensor targets =
      Tensor::empty({std::ssize(rows), *model.config().embed_dim}, DType::f64, nowhere);
  differentiate(tape, model.masked_features(batch.input, rows, targets, 1, run));
}

/// The same of a task: from its logits, or from the hidden states that a text's vector is of.
void task_pass(const Model& model, Batch batch, RunContext run) {
  run.logits_only = true;
  Tape tape;
  const ModelOutput out = model(std::move(batch.input), run);
  const Var result = out.logits.defined()         ? out.logits
                     : out.start_logits.defined() ? out.start_logits + out.end_logits
                                                  : out.last_hidden_state;
  differentiate(tape, result);
}

/// Counts the peak memory in bytes of forward and backward of `sequences` sequences, without the
/// parameters. A generator's pass counts in full, as its activations last until that of the model
/// has ended.
double measure(const PlannedRun& config, std::int64_t sequences) {
  ModelConfig shape = config.model;
  if (shape.generator) {
    PlannedRun of_generator = config, of_model = config;
    of_generator.model = generator_of(shape);
    of_generator.optimizer.groups.clear();  // whose names are those in the whole model
    of_model.model.generator.reset();
    return measure(of_generator, sequences) + measure(of_model, sequences);
  }
  if (shape.head == Head::replaced_tokens) shape.head = Head::none;
  shape.pairs = Pairs::joined;  // whose head reads single sequences
  Model model(shape);
  const DType computed = computed_type(config);
  freeze_parameters(model.parameters(), config.optimizer);
  allocate_nowhere(model.parameters(), computed, StoreMode::training);
  const Distillation distillation = teacher_of(config, computed);
  Arena& arena = Arena::of(nowhere);
  const std::int64_t before = arena.statistics().in_use_bytes;
  Batch batch;
  batch.input = input_of(config, sequences);
  batch.labels = labels_of(config, sequences);
  if (!has_task(config) && config.data.packing == SequencePacking::isolated &&
      shape.has_kind(AttentionKind::nystrom))
    isolate(batch, shape.attention.num_landmarks);
  const bool dense = batch.input.offsets.empty();
  std::vector<std::int64_t> ids(
      static_cast<std::size_t>(dense ? sequences : batch.input.sequences()));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  const RunContext run{true, config.training.activation_checkpointing, 0, 0,
                       Tensor::from(ids, {std::ssize(ids)})};
  arena.reset_peak();
  if (shape.head == Head::masked_lm) {
    pretraining_pass(model, distillation, batch, run);
  } else if (shape.head == Head::masked_features) {
    features_pass(model, batch, run);
  } else {
    task_pass(model, std::move(batch), run);
  }
  return static_cast<double>(arena.statistics().peak_in_use_bytes - before);
}

/// The nearest whole number of bytes; of more than any memory has, that many.
std::int64_t whole_bytes(double bytes) { return std::llround(std::min(bytes, 0x1p62)); }

constexpr double least = -std::numeric_limits<double>::infinity();

/// A model without layers that is as like this one as problems() permits.
ModelConfig without_layers(ModelConfig model) {
  model.num_hidden_layers = 0;
  model.attention.layers.clear();
  model.attention.window_layers.clear();
  model.attention.window.reset();
  model.local_rope_theta.reset();
  if (model.pooling == Pooling::token) model.pooling = Pooling::attention;
  if (model.head == Head::masked_features) model.head = Head::none;
  return model;
}

/// The activations of the layers, which are what they add to a model without them, and the others.
Activations measure_activations(const PlannedRun& config) {
  PlannedRun bare = config;
  bare.model = without_layers(bare.model);
  if (bare.teacher) bare.teacher = without_layers(*bare.teacher);
  bare.optimizer.groups.clear();  // which may leave nothing to train
  const double of_one = measure(config, 1), of_two = measure(config, 2);
  const double layers_of_one = std::max(0., of_one - measure(bare, 1)),
               layers_of_two = std::max(0., of_two - measure(bare, 2));
  const double rest_of_one = of_one - layers_of_one, rest_of_two = of_two - layers_of_two;
  const auto count = static_cast<double>(std::max<std::int64_t>(1, config.model.num_hidden_layers));
  return {{2 * rest_of_one - rest_of_two, rest_of_two - rest_of_one},
          {(2 * layers_of_one - layers_of_two) / count, (layers_of_two - layers_of_one) / count}};
}

/// The run as it is in a stage: with its length, and without a teacher that distillation.until_step
/// has ended.
PlannedRun in_stage(PlannedRun config, const Stage& stage) {
  config.data.sequence_length = stage.length;
  if (!config.distillation.at_step(stage.begin + 1)) config.distillation.teacher.reset();
  return config;
}

/// The largest activations of all stages, of a sequence of the last.
Activations activations_of_stages(const PlannedRun& config) {
  Activations largest{{least, least}, {least, least}};
  for (const Stage& stage : stages_of(config)) {
    const Activations own = measure_activations(in_stage(config, stage));
    const double for_one =
        static_cast<double>(stage.sequences) / static_cast<double>(config.training.batch_size);
    for (int i = 0; i < 2; ++i) {
      const double times = i == 1 ? for_one : 1;
      largest.rest[i] = std::max(largest.rest[i], times * own.rest[i]);
      largest.layer[i] = std::max(largest.layer[i], times * own.layer[i]);
    }
  }
  return largest;
}

/// The memory of a step of muon beside the fixed one: matrices on their way to being orthogonal.
std::int64_t memory_of_update(const RunConfig& config, int devices) {
  if (config.optimizer.name != OptimizerKind::muon) return 0;
  Model model(config.model);
  ParameterStore& store = model.parameters();
  freeze_parameters(store, config.optimizer);
  const SlabRange range = largest_range(config, store, devices);
  store.allocate(computed_type(config), StoreMode::training, nowhere, range);
  Optimizer optimizer(store, config.optimizer, range);
  Arena& arena = Arena::of(nowhere);
  const std::int64_t before = arena.statistics().in_use_bytes;
  arena.reset_peak();
  optimizer.step(0);
  return arena.statistics().peak_in_use_bytes - before;
}

/// The share of tokens that the head reads.
double predicted_share(const RunConfig& config) {
  return has_task(config) ? 0 : config.masking.probability.largest();
}

/// Whether the task does not tell how many choices an example has: one column lists them.
bool lists_choices(const TaskConfig& resolved) {
  return resolved.kind == TaskKind::choice && resolved.columns.choices.size() < 2 &&
         resolved.labels.empty();
}

/// The largest number of a step's `samples` that one of `devices` devices has.
std::int64_t largest_share(std::int64_t samples, int devices) {
  return (samples + devices - 1) / devices;
}

/// The operations of a step on the device with the largest share, those of the teacher included, in
/// the stage with most.
double flops_of_step(const PlannedRun& config, int devices) {
  double largest = 0;
  for (const Stage& stage : stages_of(config)) {
    const PlannedRun staged = in_stage(config, stage);
    const std::int64_t sequences =
        largest_share(stage.sequences, devices) * sequences_of_sample(config);
    const auto flops_of = [&](const ModelConfig& model) {
      return step_flops(model, sequences, stage.length, predicted_share(config));
    };
    const StepFlops own = flops_of(config.model);
    double flops = own.forward() + own.backward(config.training.activation_checkpointing);
    if (staged.distillation.teacher)
      flops += flops_of(config.teacher.value_or(config.model).with_exact_attention()).forward();
    largest = std::max(largest, flops);
  }
  return largest;
}

/// Computes the communication and the operations of a step with `elements` weights.
void plan_step(const PlannedRun& config, int devices, std::int64_t elements, MemoryPlan& plan) {
  const TrainingConfig& training = config.training;
  const DType type =
      training.reduction == Reduction::bf16 ? DType::bf16 : accumulate_dtype(training.dtype);
  const bool to_owners = training.zero > 0 && !training.deterministic;
  plan.reduced = (to_owners ? 1 : 2) * elements * size_of(type);
  plan.shared = training.zero > 0 ? plan.fixed.weights : 0;
  plan.flops = flops_of_step(config, devices);
  if (training.deterministic) return;  // its gradients are summed at the end
  const std::int64_t last = (plan.share - 1) % training.micro_batch_size + 1;
  plan.last_backward = step_flops(config.model, last * sequences_of_sample(config),
                                  config.data.sequence_length, predicted_share(config))
                           .backward(training.activation_checkpointing);
}

/// Multiply-adds of one layer's attention without the projections of queries, keys and values.
double attention_products(const ModelConfig& model, AttentionKind kind, double sequences,
                          double length) {
  const AttentionConfig& config = model.attention;
  const auto hidden = static_cast<double>(model.hidden_size),
             heads = static_cast<double>(model.num_attention_heads);
  const auto landmarks = static_cast<double>(config.num_landmarks);
  const double width = hidden / heads,
               values = sequences * length * hidden;  // elements of the queries or keys or values
  const double all = values * 2 * length;
  const double window =
      config.window ? values * 2 * std::min(length, static_cast<double>(*config.window) + 1) : 0;
  switch (kind) {
    case AttentionKind::nystrom: {
      if (length <= landmarks) return all + window;
      const double sources = config.landmark_source == LandmarkSource::keys ? 1 : 2;
      const double projections = sequences * landmarks * sources * hidden * hidden;
      const double steps =  // of the inverse, four products each
          config.inverse == Inverse::iterative ? static_cast<double>(config.inverse_iterations) : 0;
      const double matrices =
          config.inverse == Inverse::identity ? 0 : 4 * steps * landmarks + 2 * width;
      return values * 4 * landmarks + projections + window +
             sequences * heads * landmarks * landmarks * matrices;
    }
    case AttentionKind::none: return -values * 4 * hidden;  // its four projections
    case AttentionKind::softmax: return config.window ? window : all;
    case AttentionKind::double_softmax: return values * 3 * width;
    case AttentionKind::linear: return values * 2 * width;
    case AttentionKind::performer: return values * 5 * static_cast<double>(config.num_features);
    case AttentionKind::linformer:
      return values * 4 * std::min(static_cast<double>(config.projected_length), length);
    /// Each query sees two chunks of keys, which are queries too: their projection is left out. The
    /// hash has as many directions as there are chunks.
    case AttentionKind::reformer: {
      const double bucket = std::min(static_cast<double>(config.bucket_size), length);
      const double round = 4 * bucket + length / bucket;
      return values * (static_cast<double>(config.num_hashes) * round - hidden);
    }
  }
  return 0;
}

}  // namespace

bool lists_labels(const RunConfig& config) {
  if (!has_task(config)) return false;
  const TaskKind kind = *resolve_task(config.task).kind;
  const bool labelled =
      kind == TaskKind::classification || kind == TaskKind::tokens || kind == TaskKind::features;
  return labelled && config.model.labels == ModelConfig{}.labels;
}

RunConfig with_labels(RunConfig config) {
  if (!has_task(config)) return config;
  const TaskConfig task = resolve_task(config.task);
  const bool number = task.kind == TaskKind::regression ||
                      (task.kind == TaskKind::features && config.task.columns.value);
  if (number)
    config.model.labels = {"LABEL_0"};
  else if (!task.labels.empty() && lists_labels(config))
    config.model.labels = task.labels;
  return config;
}

std::int64_t sequences_of_sample(const RunConfig& config) {
  if (config.model.has_towers()) return 2;
  if (!has_task(config)) return 1;
  const TaskConfig task = resolve_task(config.task);
  if (task.kind == TaskKind::embeddings) return 2 + std::ssize(task.columns.negatives);
  if (task.kind == TaskKind::choice)
    return std::max({std::int64_t{2}, std::ssize(task.columns.choices), std::ssize(task.labels)});
  return 1;
}

StepFlops step_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                     double predicted) {
  const auto hidden = static_cast<double>(config.hidden_size),
             wide = static_cast<double>(config.intermediate_size),
             embedded = static_cast<double>(config.embed_dim.value_or(config.embedding_width())),
             words = static_cast<double>(config.vocab_size);
  const double tokens = static_cast<double>(sequences) * static_cast<double>(length);
  const double layers_of_mlp = config.mlp == Mlp::geglu ? 3 : 2;
  const double projections = 3 * hidden * hidden,
               rest = hidden * hidden + layers_of_mlp * hidden * wide;
  const double convolution =
      tokens * hidden * static_cast<double>(config.attention.conv_kernel_size.value_or(0));
  double attention = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    attention += attention_products(config.of_layer(layer), config.kind_of(layer),
                                    static_cast<double>(sequences), static_cast<double>(length));
  const bool masked_lm = config.head == Head::masked_lm,
             masked = masked_lm || config.head == Head::masked_features;
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const double head = masked_lm ? predicted * tokens * embedded * (hidden + words) : 0;
  const double embeddings = config.embed_dim || embedded != hidden ? tokens * embedded * hidden : 0;
  const double full_layers = masked && layers > 0 ? layers - 1 + predicted : layers;
  StepFlops flops = {2 * (embeddings + layers * (tokens * projections + convolution) + attention) +
                         2 * full_layers * tokens * rest,
                     2 * head};
  if (config.head == Head::masked_features)
    flops.head = 2 * predicted * tokens * hidden * static_cast<double>(*config.embed_dim);
  if (config.head == Head::sequence_classification && config.pooling == Pooling::attention) {
    constexpr auto gates = static_cast<double>(GatedAttentionPooling::gates);
    flops.head = 2 * tokens * (gates * (2 * hidden + 1) + hidden);
  }
  if (config.head == Head::replaced_tokens) flops.head += 2 * tokens * hidden * (hidden + 1);
  if (config.generator) {
    const StepFlops generator = step_flops(generator_of(config), sequences, length, predicted);
    flops.layers += generator.layers;
    flops.head += generator.head;
  }
  return flops;
}

std::int64_t MemoryPlan::activations(std::int64_t micro_batch) const {
  const auto bytes = [&](double kept, std::int64_t samples) {
    const auto b = static_cast<double>(samples);
    return whole_bytes(rest[0] + rest[1] * b + kept * (layer[0] + layer[1] * b));
  };
  const std::int64_t training = bytes(static_cast<double>(layers), std::min(micro_batch, share));
  // An evaluation keeps no activations: it holds those of one layer at most.
  return std::max({std::int64_t{0}, training, micro_batch > share ? bytes(1, micro_batch) : 0});
}

std::int64_t MemoryPlan::activations_of_layers(std::int64_t micro_batch) const {
  const double one = layer[0] + layer[1] * static_cast<double>(std::min(micro_batch, share));
  // Of a tiny model the peak can be in one layer, and the rest below 0.
  return std::clamp<std::int64_t>(whole_bytes(static_cast<double>(layers) * one), 0,
                                  activations(micro_batch));
}

std::int64_t MemoryPlan::largest_micro_batch(std::int64_t memory, std::int64_t limit) const {
  std::int64_t fits = 0;
  for (std::int64_t step = std::int64_t{1} << 40; step > 0; step /= 2)
    if (fits + step <= limit && total(fits + step) <= memory) fits += step;
  return fits;
}

MemoryPlan plan_memory(const RunConfig& given, int devices,
                       const std::optional<ModelConfig>& teacher) {
  const PlannedRun config{with_labels(given), teacher};
  const Model model(config.model);
  const std::int64_t elements = model.parameters().slab_size();
  MemoryPlan plan{activations_of_stages(config)};
  plan.fixed = fixed_memory(config, model.parameters(), devices, teacher);
  plan.update = memory_of_update(config, devices);
  plan.share = largest_share(config.training.batch_size, devices);
  plan_step(config, devices, elements, plan);
  plan.layers = config.model.num_hidden_layers;
  const auto sequences = static_cast<double>(sequences_of_sample(config));
  plan.rest[1] *= sequences;
  plan.layer[1] *= sequences;
  return plan;
}

std::vector<std::pair<std::string, std::int64_t>> bytes_by_part(const MemoryPlan& plan,
                                                                std::int64_t micro_batch) {
  return {{"weights", plan.fixed.weights},
          {"exact_weights", plan.fixed.masters},
          {"gradients", plan.fixed.gradients},
          {"optimizer", plan.fixed.optimizer},
          {"averaged_weights", plan.fixed.average},
          {"teacher", plan.fixed.teacher},
          {"communication", plan.fixed.communication},
          {"activations", plan.activations(micro_batch)},
          {"activations_per_layer",
           plan.activations_of_layers(micro_batch) / std::max<std::int64_t>(1, plan.layers)},
          {"update", plan.update_beyond_activations(micro_batch)},
          {"total", plan.total(micro_batch)}};
}

StepTime plan_time(const MemoryPlan& plan, int devices, double bandwidth,
                   std::optional<double> speed) {
  // Seconds per byte in a ring.
  const double round = static_cast<double>(devices - 1) / devices / bandwidth;
  const double reducing = round * static_cast<double>(plan.reduced);
  const double sharing = round * static_cast<double>(plan.shared);
  StepTime time;
  time.communication = reducing + sharing;
  if (!speed) return time;
  time.computation = plan.flops / *speed;
  time.step = *time.computation + std::max(0.0, reducing - plan.last_backward / *speed) + sharing;
  return time;
}

std::int64_t parse_amount(const std::string& option, const std::string& text) {
  constexpr std::string_view units = "KMGT";
  const std::size_t unit = text.empty() ? units.npos : units.find(text.back());
  const double number = number_of<double>(text.substr(0, text.size() - 1)).value_or(0);
  require_input(unit != units.npos && number > 0 && number < 1e6,
                "{} {}: expected a number with K, M, G or T, such as 80G", option,
                printable(text, 40));
  return std::llround(number * std::pow(1000.0, static_cast<double>(unit + 1)));
}

std::vector<std::string> describe(const MemoryPlan& plan, const RunConfig& config, int devices) {
  const std::int64_t batch = config.training.micro_batch_size;
  const std::int64_t all = plan.activations(batch), layers = plan.activations_of_layers(batch);
  std::vector<std::string> lines = {
      devices == 1 ? "memory:" : fmt::format("memory of each of {} devices:", devices)};
  const auto text = [](std::int64_t bytes) { return memory_text(static_cast<double>(bytes)); };
  const auto line = [&](const std::string& what, std::int64_t bytes) {
    if (bytes != 0) lines.push_back(fmt::format("  {:<44}{:>12}", what, text(bytes)));
  };
  for (auto& [part, bytes] : bytes_by_part(plan, batch)) {
    if (part == "activations") break;  // which follow by layer
    std::ranges::replace(part, '_', ' ');
    line(part, bytes);
  }
  line(fmt::format("activations of {} layers, {} each", plan.layers,
                   text(layers / std::max<std::int64_t>(1, plan.layers))),
       layers);
  line("activations of the rest", all - layers);
  line("the optimizer's step, beyond activations", plan.update_beyond_activations(batch));
  line(fmt::format("in all, with micro_batch_size {}{}", batch,
                   batch > plan.share ? fmt::format(", {} at once", plan.share) : ""),
       plan.total(batch));
  if (!has_task(config)) return lines;
  const TaskConfig task = resolve_task(config.task);
  if (lists_choices(task))
    lines.push_back("  for two choices: nystrom check counts those that the files list");
  if (lists_labels(with_labels(config)))
    lines.push_back("  for two labels: nystrom check --data counts those of the files");
  return lines;
}

}  // namespace nystrom
