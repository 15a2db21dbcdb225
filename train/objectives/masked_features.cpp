#include "train/objectives/pretrain.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/interruption.h"
#include "core/check.h"
#include "core/kernels.h"
#include "data/pretraining/masking.h"
#include "data/tasks/task_metrics.h"
#include "train/objectives/finetune.h"
#include "train/optim/schedule.h"

namespace nystrom {
namespace {

/// Rows [r, width] of any float type, each standardised over its width: [r, width] f64. In f32 a
/// row of one large number would not give zeros. Each row is divided by its largest number first,
/// so that ε is none beside numbers that are small everywhere.
Tensor standardised(const Tensor& rows) {
  const std::int64_t width = rows.dim(1);
  const Tensor ones = Tensor::full({width}, 1, DType::f64);
  Tensor scaled = Tensor::empty(rows.shape(), DType::f64);
  kernels::copy(rows, scaled);
  for (std::int64_t i = 0; i < rows.dim(0); ++i) {
    const std::span row(scaled.data<double>() + i * width, static_cast<std::size_t>(width));
    double largest = 0;
    for (const double number : row) largest = std::max(largest, std::abs(number));
    for (double& number : row) number /= largest > 0 ? largest : 1;
  }
  return layer_norm(Var(scaled), Var(ones), {}, 1e-24).value();
}

/// The mean standardised row of training samples: of 32 at least, and of more until there are
/// 65,536 rows. To read all bags would take as long as an epoch's reading, for a mean that some
/// tell.
std::vector<double> mean_row(const TaskDataset& data, std::uint64_t seed) {
  constexpr std::int64_t least_samples = 32, enough_rows = 65536, block = 4096;
  std::vector<double> mean(static_cast<std::size_t>(data.width()));
  std::int64_t rows = 0;
  const SampleOrder order(data.size(), seed);
  for (std::int64_t i = 0; i < data.size() && (i < least_samples || rows < enough_rows); ++i) {
    check_interruption();
    const std::vector<std::int64_t> sample = {order(i)};
    const Tensor features = make_task_batch(data, sample, sample).input.features;
    for (std::int64_t begin = 0; begin < features.dim(0); begin += block) {
      const Tensor part =
          standardised(features.slice(0, begin, std::min(begin + block, features.dim(0))));
      for (std::int64_t j = 0; j < part.numel(); ++j)
        mean[static_cast<std::size_t>(j % data.width())] += part.data<double>()[j];
    }
    rows += features.dim(0);
  }
  for (double& number : mean) number /= static_cast<double>(rows);
  return mean;
}

/// A hash of the samples as they are read.
std::string features_checksum(const TaskDataset& data) {
  Checksum checksum;
  checksum.add(data.digests());
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const std::int64_t length = data.length(i);
    checksum.update(&length, sizeof length);
  }
  return checksum.hex();
}

class FeatureObjective : public Objective {
 public:
  /// `config` and `communicator` must outlive it.
  FeatureObjective(const RunConfig& config, FeatureSets sets, Communicator& communicator)
      : config_(config), communicator_(communicator), sets_(std::move(sets)) {
    options_ = loader_options(config, communicator);
    options_.unlabelled = true;
    run_data_ = run_data(sets_);
    run_data_.samples = sets_.train->size();
    run_data_.metric_name = "loss";
    run_data_.micro_batch_ranks = micro_batch_ranks(options_);
    run_data_.large_files = large_files({sets_.train, sets_.validation});
    mean_.resize(static_cast<std::size_t>(sets_.train->width()));
    if (communicator.is_first()) mean_ = mean_row(*sets_.train, options_.seed);
    mean_ = communicator.sum(mean_);
  }

  void start(std::int64_t batch) override {
    loader_ = std::make_unique<TaskLoader>(sets_.train, options_, batch);
  }

  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const std::int64_t steps = total_steps(config_.training, run_data_.samples);
    const FeatureMasking masking{config_.masking.probability.at(loader_->step(), steps),
                                 options_.seed, sets_.train->size()};
    const std::vector<Batch> batches = loader_->next();
    double masked = 0;
    for (const Batch& batch : batches)
      masked += static_cast<double>(masked_rows(batch, masking).size());
    const double numbers =
        sum_over_processes(options, {masked})[0] * static_cast<double>(sets_.train->width());
    const auto loss = [&](std::size_t part, const RunContext& run) {
      MaskedFeatures data = mask_features(loader_->whole(batches[part]), masking);
      return model.masked_features(std::move(data.input), data.rows, data.targets, numbers, run);
    };
    return optimizer_step(optimizer, batches, loss, options);
  }

  Score evaluate(const Model& model, const EvaluationProgress& progress) override {
    const TaskDataset& data = *sets_.validation;
    const FeatureMasking masking{config_.masking.probability.last(), options_.seed, data.size()};
    TaskEvaluationLoader loader(sets_.validation, options_);
    double errors = 0, of_mean = 0, numbers = 0;
    const auto compute = [&](std::int64_t) {
      check_interruption();
      MaskedFeatures masked = mask_features(*loader.next(), masking);
      const Var mean(Tensor::from(mean_, {1, std::ssize(mean_)}));
      const double distance = sum(square(Var(masked.targets) - mean)).value().item(),
                   count = static_cast<double>(masked.targets.numel());
      const Var error =
          model.masked_features(std::move(masked.input), masked.rows, masked.targets, 1, {});
      return std::vector{error.value().item(), distance, count};
    };
    const std::int64_t batches = loader.batches();
    communicator_.share(batches, compute, [&](std::int64_t batch, std::span<const double> sums) {
      errors += sums[0];
      of_mean += sums[1];
      numbers += sums[2];
      progress((batch + 1) * data.size() / batches, data.size());
    });
    require_finite(std::span(&errors, 1));
    const double loss = errors / numbers;
    baseline_ = of_mean / numbers;
    return {loss, {{"loss", loss}, {"baseline", *baseline_}}, fmt::format("loss {:.4f}", loss)};
  }

  /// The loss of always the mean row, on the held-out samples; nothing before an evaluation.
  const std::optional<double>& baseline() const { return baseline_; }

 private:
  const RunConfig& config_;
  Communicator& communicator_;
  FeatureSets sets_;
  std::vector<double> mean_;
  std::optional<double> baseline_;
  TaskLoaderOptions options_;
  std::unique_ptr<TaskLoader> loader_;
};

}  // namespace

std::vector<std::int64_t> masked_rows(const Batch& batch, const FeatureMasking& masking) {
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const std::int64_t first = batch.input.offsets[i],
                       id = batch.sample_ids.data<std::int64_t>()[i];
    const MaskingKey key{masking.seed, static_cast<std::uint64_t>(id / masking.samples),
                         static_cast<std::uint64_t>(batch.samples[i])};
    for (const std::int64_t row :
         masked_rows(batch.input.offsets[i + 1] - first, masking.share, key))
      rows.push_back(first + row);
  }
  return rows;
}

MaskedFeatures mask_features(Batch batch, const FeatureMasking& masking) {
  MaskedFeatures result{std::move(batch.input), {}, {}};
  batch.input.offsets = result.input.offsets;
  result.rows = masked_rows(batch, masking);
  const Tensor features = result.input.features;
  result.targets = Tensor::empty({std::ssize(result.rows), features.dim(1)}, DType::f64);
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    Tensor row = features.slice(0, result.rows[i], result.rows[i] + 1),
           target = result.targets.slice(0, at, at + 1);
    kernels::copy(row, target);
    kernels::fill(row, 0);
  }
  if (!result.rows.empty()) result.targets = standardised(result.targets);
  return result;
}

FeatureSets open_features(const RunSpec& spec) {
  const RunConfig& options = spec.options;
  const TaskConfig& task = *spec.inputs;
  constexpr Labelled labelled = Labelled::for_parts;
  const TaskReader reader(task, {}, nullptr, options.model, options.data.sequence_length);
  FeatureSets sets;
  if (hold_bags(task, labelled)) {
    const BagParts bags = part_bags(task, options.seed, labelled);
    sets = {reader.open(bags.train, labelled, bags.notes), reader.open(bags.validation, labelled)};
    require_apart({sets.train.get(), sets.validation.get()});
  } else {
    const TaskSources sources = task_sources(task, options.seed, labelled);
    sets = {reader.read(sources.train, labelled), reader.read(sources.validation, labelled)};
  }
  for (const auto& [option, set] :
       {std::pair("task.train", &sets.train),
        {task.validation.empty() ? "the held-out part of task.train" : "task.validation",
         &sets.validation}})
    require_input((*set)->counts().longest > 1,
                  "{}: every sample has a single row, which nothing tells when it is masked; give "
                  "longer ones",
                  option);
  return sets;
}

RunData run_data(const FeatureSets& sets) {
  return {.tokenizer = "",
          .data = features_checksum(*sets.train),
          .validation = features_checksum(*sets.validation)};
}

std::vector<std::string> describe(const FeatureSets& sets, std::int64_t sequence_length) {
  std::vector<std::string> lines;
  for (const auto& [name, set] :
       {std::pair("training", &sets.train), {"validation", &sets.validation}}) {
    const EncodingCounts& counts = (*set)->counts();
    const std::string cut = describe_cut(TaskKind::features, counts, sequence_length);
    lines.push_back(fmt::format("{}: {} samples with {} rows, longest {}{}{}", name, counts.samples,
                                counts.tokens, counts.longest, cut.empty() ? "" : "; ", cut));
  }
  return lines;
}

std::vector<std::string> feature_warnings(const FeatureSets& sets, const TrainingConfig& training) {
  std::vector<std::string> lines = sets.train->skipped().notes;
  const std::vector<Digest>& held = sets.validation->digests();
  const std::int64_t shared = count_known(held, sets.train->digests());
  if (shared > 0)
    lines.push_back(
        fmt::format("{} of {} held-out samples are among those to train on; their loss is no test",
                    shared, held.size()));
  std::ranges::copy(training_warnings(training, *sets.train), std::back_inserter(lines));
  return lines;
}

RunResult pretrain_features(const RunSpec& spec, Log& log, Device device,
                            Communicator& communicator, const RunObserver& observer) {
  const RunConfig& options = spec.options;
  FeatureSets sets = open_features(spec);  // reports errors before any file is written
  require_schedules_within_run(options, sets.train->size());
  const RunSession session(spec, log, communicator);
  for (const std::string& line : describe(sets, options.data.sequence_length)) log.say(line);
  for (const std::string& line : feature_warnings(sets, options.training)) log.warn(line);
  return with_recorded_errors(log, [&] {
    FeatureObjective objective(options, std::move(sets), communicator);
    RunResult result = train_run(session, spec, objective, device, observer);
    const auto& best = result.best_value;
    const auto& baseline = objective.baseline();
    if (result.interrupted || !best || !baseline) return result;
    if (*best < *baseline)
      log.say(fmt::format("validation loss {:.4f}; always the mean row: {:.4f}", *best, *baseline));
    else
      log.warn(
          fmt::format("loss {:.4f} is no better than always the mean row ({:.4f}); train "
                      "longer, or with another learning rate",
                      *best, *baseline));
    return result;
  });
}

}  // namespace nystrom
