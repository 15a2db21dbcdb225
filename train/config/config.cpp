#include "train/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/require.h"
#include "train/config/yaml.h"
#include "train/optim/schedule.h"

namespace nystrom {

std::span<const EnumName<Reduction>> enum_names(Reduction) {
  static constexpr EnumName<Reduction> names[] = {{Reduction::exact, "exact"},
                                                  {Reduction::bf16, "bf16"}};
  return names;
}

std::span<const EnumName<PretrainingObjective>> enum_names(PretrainingObjective) {
  static constexpr EnumName<PretrainingObjective> names[] = {
      {PretrainingObjective::masked, "masked"},
      {PretrainingObjective::replaced_tokens, "replaced_tokens"}};
  return names;
}

std::span<const EnumName<OnLossSpike>> enum_names(OnLossSpike) {
  static constexpr EnumName<OnLossSpike> names[] = {{OnLossSpike::warn, "warn"},
                                                    {OnLossSpike::roll_back, "roll_back"}};
  return names;
}

std::span<const EnumName<DType>> enum_names(DType) {
  static constexpr EnumName<DType> names[] = {
      {DType::bf16, "bf16"}, {DType::f16, "f16"}, {DType::f32, "f32"}, {DType::f64, "f64"}};
  return names;
}

std::span<const EnumName<TokenizerKind>> enum_names(TokenizerKind) {
  static constexpr EnumName<TokenizerKind> names[] = {{TokenizerKind::unigram, "unigram"},
                                                      {TokenizerKind::bpe, "bpe"}};
  return names;
}

std::span<const EnumName<Documents>> enum_names(Documents) {
  static constexpr EnumName<Documents> names[] = {{Documents::files, "files"},
                                                  {Documents::lines, "lines"},
                                                  {Documents::blank_lines, "blank_lines"}};
  return names;
}

std::span<const EnumName<SequencePacking>> enum_names(SequencePacking) {
  static constexpr EnumName<SequencePacking> names[] = {{SequencePacking::alone, "alone"},
                                                        {SequencePacking::isolated, "isolated"}};
  return names;
}

std::vector<LengthStage> length_stages(const DataConfig& config) {
  std::vector<LengthStage> stages;
  for (const auto& [step, length] : config.length_schedule) {
    const auto begin = parse_whole_number(step);
    if (begin && *begin >= 0) stages.push_back({*begin, length});
  }
  if (stages.empty()) stages.push_back({0, config.sequence_length});
  return stages;
}

std::int64_t total_steps(const TrainingConfig& config, std::int64_t samples) {
  if (config.steps) return *config.steps;
  const double sequences = std::ceil(config.epochs.value_or(1) * static_cast<double>(samples));
  return static_cast<std::int64_t>(std::ceil(sequences / static_cast<double>(config.batch_size)));
}

void require_schedules_within_run(const RunConfig& config, std::int64_t samples) {
  const std::int64_t steps = total_steps(config.training, samples),
                     warmup = warmup_of(config.schedule, steps);
  require_input(warmup <= steps,
                "schedule.warmup_steps {} exceeds the number of steps, {}, that training.epochs {} "
                "make of {} samples in batches of {}; the learning rate would never reach its "
                "peak: lower it, or give schedule.warmup_share in its place",
                warmup, steps, config.training.epochs.value_or(1), samples,
                config.training.batch_size);
  const std::string masks = config.masking.probability.key_problem(steps);
  require_input(masks.empty(), "masking.probability {}", masks);
  const LengthStage last = length_stages(config.data).back();
  require_input(last.begin < steps,
                "data.length_schedule reaches {} tokens after {} steps, but training.epochs {} "
                "make {} of {} samples in batches of {}; begin earlier, or leave this length out",
                last.length, last.begin, config.training.epochs.value_or(1), steps, samples,
                config.training.batch_size);
}

std::int64_t evaluation_interval(const RunConfig& config, std::int64_t samples) {
  const std::int64_t batch = config.training.batch_size;
  return config.evaluation.every.value_or((samples + batch - 1) / batch);
}

bool has_task(const RunConfig& config) {
  const TaskConfig& task = config.task;
  return task.kind || task.recipe || !task.train.empty() || !task.validation.empty();
}

Head head_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::tokens: return Head::token_classification;
    case TaskKind::questions: return Head::question_answering;
    case TaskKind::choice: return Head::multiple_choice;
    case TaskKind::embeddings: return Head::none;
    case TaskKind::classification:
    case TaskKind::regression:
    case TaskKind::features: break;
  }
  return Head::sequence_classification;
}

double finetuning_rate(std::int64_t hidden_size) {
  const double ratio = 768 / static_cast<double>(hidden_size);
  return std::stod(fmt::format("{:.1e}", std::min(1e-3, 3e-5 * ratio * ratio)));
}

void set_finetuning_defaults(RunConfig& config, std::int64_t hidden_size) {
  config.run_dir = "runs/finetuned";
  config.optimizer.learning_rate = finetuning_rate(hidden_size);
  config.schedule.warmup_steps.reset();
  config.schedule.warmup_share = 0.1;
  config.training.steps.reset();
  config.training.epochs = 4;
  config.training.batch_size = 32;
  config.evaluation.every.reset();
}

}  // namespace nystrom
