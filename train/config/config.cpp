#include "train/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/require.h"
#include "core/base/words.h"
#include "train/config/yaml.h"
#include "train/optim/schedule.h"

namespace nystrom {

std::span<const EnumName<DType>> enum_names(DType) {
  static constexpr EnumName<DType> names[] = {
      {DType::bf16, "bf16"}, {DType::f16, "f16"}, {DType::f32, "f32"}, {DType::f64, "f64"}};
  return names;
}

std::vector<std::pair<std::int64_t, std::int64_t>> steps_of(const StepSchedule& schedule,
                                                            std::int64_t constant) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (const auto& [step, number] : schedule) {
    const auto begin = parse_whole_number(step);
    if (begin && *begin >= 0) steps.emplace_back(*begin, number);
  }
  if (steps.empty()) steps.emplace_back(0, constant);
  return steps;
}

std::vector<Stage> stages_of(const RunConfig& config) {
  const std::int64_t longest = config.data.sequence_length;
  const auto lengths = steps_of(config.data.length_schedule, longest),
             batches = steps_of(config.training.batch_schedule, config.training.batch_size);
  std::set<std::int64_t> begins;
  for (const auto& steps : {lengths, batches})
    for (const auto& [begin, number] : steps) begins.insert(begin);
  const auto at = [](const auto& steps, std::int64_t begin) {
    std::int64_t number = steps.front().second;
    for (const auto& [step, next] : steps)
      if (step <= begin) number = next;
    return number;
  };
  std::vector<Stage> stages;
  for (const std::int64_t begin : begins) {
    const std::int64_t length = at(lengths, begin);
    Stage stage{begin, length, at(batches, begin) * (longest / length)};
    if (!stages.empty() && stages.back().length == length) {
      const Stage& before = stages.back();
      stage.first = before.first + (begin - before.begin) * before.sequences;
    }
    stages.push_back(stage);
  }
  return stages;
}

std::int64_t total_steps(const TrainingConfig& config, std::int64_t samples) {
  if (config.steps) return *config.steps;
  const double wanted = config.epochs.value_or(1) * static_cast<double>(samples);
  const bool whole = std::abs(wanted - std::round(wanted)) < 1e-9 * wanted;  // but for rounding
  double left = whole ? std::round(wanted) : std::ceil(wanted);
  const auto batches = steps_of(config.batch_schedule, config.batch_size);
  for (std::size_t i = 0;; ++i) {
    const auto [begin, batch] = batches[i];
    require_input(left < 1e15, "training.epochs {} make more than 10^15 sequences",
                  config.epochs.value_or(1));
    const auto steps = static_cast<std::int64_t>(std::ceil(left / static_cast<double>(batch)));
    if (i + 1 == batches.size() || begin + steps <= batches[i + 1].first) return begin + steps;
    left -= static_cast<double>((batches[i + 1].first - begin) * batch);
  }
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
  const std::string decay = decay_problem(config.schedule, steps);
  require_input(decay.empty(), "{}", decay);
  const std::string masks = config.masking.probability.key_problem(steps);
  require_input(masks.empty(), "masking.probability {}", masks);
  const auto require_begun = [&](const char* option, const StepSchedule& schedule) {
    const auto [begin, number] = steps_of(schedule, 0).back();
    require_input(begin < steps,
                  "{} reaches {} after {} steps, but training.epochs {} make {} of {} samples; "
                  "begin earlier, or give more epochs",
                  option, number, begin, config.training.epochs.value_or(1), steps, samples);
  };
  require_begun("data.length_schedule", config.data.length_schedule);
  require_begun("training.batch_schedule", config.training.batch_schedule);
}

std::int64_t evaluation_interval(const RunConfig& config, std::int64_t samples) {
  TrainingConfig once = config.training;
  once.steps = std::nullopt;
  once.epochs = 1;
  return config.evaluation.every.value_or(total_steps(once, samples));
}

bool has_task(const RunConfig& config) {
  const TaskConfig& task = config.task;
  return task.kind || task.recipe || !task.train.empty() || !task.validation.empty();
}

bool reads_features(const RunConfig& config) {
  return !has_task(config) && config.model.embed_dim.has_value();
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
  const std::string digits = fmt::format("{:.1e}", std::min(1e-3, 3e-5 * ratio * ratio));
  return number_of<double>(digits).value();
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
