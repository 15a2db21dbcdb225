#include "data/tasks/task_loader.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {
namespace {

constexpr std::int64_t window_batches = 64;
constexpr int read_ahead_threads = 2;
// Of bags that are computed together to evaluate and predict: more at once are no faster.
constexpr std::int64_t bag_rows_at_once = 8192;

template <class T>
Tensor row_of(const std::vector<T>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

void check(const TaskDataset* dataset, const TaskLoaderOptions& options) {
  require(dataset != nullptr, "task loader: no data set");
  require_input(dataset->size() > 0, "task loader: the data set has no samples");
  require_input(options.micro_batch_size >= 1,
                "task loader: micro_batch_size {} must be at least 1", options.micro_batch_size);
  require(options.rank >= 0 && options.rank < options.world_size, "task loader: rank {} of {}",
          options.rank, options.world_size);
}

using Samples = std::vector<const EncodedSample*>;

/// A number of each sample.
template <class T, class Number>
Tensor row_of(const Samples& samples, Number EncodedSample::*number) {
  std::vector<T> values;
  for (const EncodedSample* sample : samples) values.push_back(static_cast<T>(sample->*number));
  return row_of(values);
}

void fill_features(const TaskDataset& data, Batch& batch) {
  batch.input.features = Tensor::empty({batch.tokens, data.width()}, data.feature_dtype());
  for (std::size_t i = 0; i < batch.samples.size(); ++i)
    data.read_rows(batch.samples[i], batch.input.features.slice(0, batch.input.offsets[i],
                                                                batch.input.offsets[i + 1]));
}

Tensor label_sets(const Samples& samples, std::int64_t labels) {
  std::vector<std::int64_t> held(samples.size() * static_cast<std::size_t>(labels));
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (const std::int64_t label : samples[i]->labels)
      held[i * static_cast<std::size_t>(labels) + static_cast<std::size_t>(label)] = 1;
  return row_of(held).reshape({std::ssize(samples), labels});
}

void fill_word_labels(const Samples& samples, Batch& batch) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch.tokens), ignore_index);
  batch.targets = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t word = 0; word < samples[i]->word_starts.size(); ++word) {
      const std::int64_t start = samples[i]->word_starts[word];
      if (start < 0) continue;
      labels[static_cast<std::size_t>(batch.input.offsets[i] + start)] = samples[i]->labels[word];
      ++batch.targets;
    }
  }
  batch.labels = row_of(labels);
}

void fill_targets(const TaskDataset& data, const Samples& samples, Batch& batch) {
  batch.targets = std::ssize(samples);
  switch (data.target()) {
    case TaskTarget::classes:
    case TaskTarget::choice:
      batch.labels = row_of<std::int64_t>(samples, &EncodedSample::label);
      break;
    case TaskTarget::label_set: batch.labels = label_sets(samples, data.labels().size()); break;
    case TaskTarget::value: batch.labels = row_of<float>(samples, &EncodedSample::value); break;
    case TaskTarget::word_classes: fill_word_labels(samples, batch); break;
    case TaskTarget::span:
      batch.start_positions = row_of<std::int64_t>(samples, &EncodedSample::start);
      batch.end_positions = row_of<std::int64_t>(samples, &EncodedSample::end);
      break;
    case TaskTarget::none: batch.targets = 0;
  }
}

/// Throws an InputError when task.balance has no labels to balance.
void require_labels(const TaskDataset& dataset) {
  require_input(dataset.target() == TaskTarget::classes,
                "task.balance {} is for classes of texts or bags; this task has none",
                enum_name(dataset.task().balance));
}

/// The factor of each label's samples for TaskBalance::weights: the mean number of samples of a
/// label that occurs over its own, without those of weight 0. Empty for others.
std::vector<double> label_weights(const TaskDataset& dataset) {
  if (dataset.task().balance != TaskBalance::weights) return {};
  require_labels(dataset);
  std::vector<double> counts(static_cast<std::size_t>(dataset.labels().size()));
  double all = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const bool counts_for_loss = dataset.weight(i) > 0;
    counts[static_cast<std::size_t>(dataset.sample(i).label)] += counts_for_loss;
    all += counts_for_loss;
  }
  const auto labels =
      static_cast<double>(std::ranges::count_if(counts, [](double n) { return n > 0; }));
  for (double& count : counts) count = count == 0 ? 0 : all / (labels * count);
  return counts;
}

/// The number of targets that a sample adds to Batch::targets.
std::int64_t targets_of(const TaskDataset& dataset, std::int64_t index) {
  if (dataset.target() != TaskTarget::word_classes) return 1;
  return std::ranges::count_if(dataset.sample(index).word_starts,
                               [](std::int64_t start) { return start >= 0; });
}

/// The sample at each position of a run.
std::function<std::int64_t(std::int64_t)> order_of(const TaskDataset& dataset,
                                                   const TaskLoaderOptions& options) {
  if (options.unlabelled || dataset.task().balance != TaskBalance::sampling)
    return SampleOrder(dataset.size(), options.seed);
  require_labels(dataset);
  std::vector<std::vector<std::int64_t>> samples(  // of each label that has some
      static_cast<std::size_t>(dataset.labels().size()));
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    if (dataset.weight(i) > 0)
      samples[static_cast<std::size_t>(dataset.sample(i).label)].push_back(i);
  std::erase_if(samples, [](const auto& of_label) { return of_label.empty(); });
  std::vector<SampleOrder> orders;
  for (std::size_t label = 0; label < samples.size(); ++label)
    orders.emplace_back(std::ssize(samples[label]), options.seed + label);
  return [samples = std::move(samples), orders = std::move(orders)](std::int64_t position) {
    const std::int64_t labels = std::ssize(orders), place = position / labels;
    const auto label = static_cast<std::size_t>(position % labels);
    return samples[label][static_cast<std::size_t>(orders[label](place))];
  };
}

}  // namespace

ModelInput joined_rows(std::span<const WrappedIds> sequences) {
  ModelInput input;
  input.offsets = {0};
  std::vector<std::int64_t> ids, types;
  for (const WrappedIds& sequence : sequences) {
    ids.insert(ids.end(), sequence.ids.begin(), sequence.ids.end());
    types.insert(types.end(), sequence.type_ids.begin(), sequence.type_ids.end());
    types.resize(ids.size());
    input.offsets.push_back(std::ssize(ids));
  }
  input.input_ids = row_of(ids);
  if (std::ranges::any_of(types, [](std::int64_t type) { return type != 0; }))
    input.token_type_ids = row_of(types);
  return input;
}

std::vector<std::vector<std::int64_t>> batches_by_length(std::span<const std::int64_t> lengths,
                                                         std::int64_t batch_size,
                                                         std::int64_t max_tokens) {
  std::vector<std::vector<std::int64_t>> batches;
  for (const std::size_t sequence :
       indices_by(lengths.size(), [&](std::size_t i) { return lengths[i]; })) {
    const std::int64_t length = lengths[sequence];
    const auto fits = [&](const std::vector<std::int64_t>& batch) {
      return std::ssize(batch) < batch_size && (std::ssize(batch) + 1) * length <= max_tokens;
    };
    if (batches.empty() || !fits(batches.back())) batches.emplace_back();
    batches.back().push_back(static_cast<std::int64_t>(sequence));
  }
  return batches;
}

void for_each_batch(
    const std::vector<TextIds>& texts, std::int64_t batch_size,
    const std::function<void(const std::vector<std::size_t>&, const ModelInput&)>& compute) {
  std::vector<std::int64_t> lengths;
  for (const TextIds& text : texts) lengths.push_back(std::ssize(text));
  for (const auto& batch : batches_by_length(lengths, batch_size)) {
    const std::vector<std::size_t> numbers(batch.begin(), batch.end());
    std::vector<WrappedIds> rows;
    for (const std::size_t text : numbers)
      rows.push_back({{texts[text].begin(), texts[text].end()}, {}});
    compute(numbers, joined_rows(rows));
  }
}

Batch make_task_batch(const TaskDataset& dataset, std::span<const std::int64_t> samples,
                      std::span<const std::int64_t> ids, bool read_bags) {
  require(samples.size() == ids.size() && !samples.empty(), "task batch: {} samples with {} ids",
          samples.size(), ids.size());
  Batch batch;
  batch.samples.assign(samples.begin(), samples.end());
  Samples encoded;
  for (const std::int64_t sample : samples) encoded.push_back(&dataset.sample(sample));
  if (dataset.kind() == TaskKind::features) {
    batch.input.offsets = {0};
    for (const std::int64_t sample : samples)
      batch.input.offsets.push_back(batch.tokens += dataset.length(sample));
    if (read_bags || !dataset.has_bags()) fill_features(dataset, batch);
  } else {
    std::vector<WrappedIds> rows;
    for (const EncodedSample* sample : encoded)
      rows.insert(rows.end(), sample->rows.begin(), sample->rows.end());
    batch.choices = std::ssize(encoded[0]->rows);
    batch.input = joined_rows(rows);
    batch.tokens = batch.input.offsets.back();
  }
  std::vector<std::int64_t> sample_ids;
  for (const std::int64_t id : ids)
    for (std::int64_t choice = 0; choice < batch.choices; ++choice)
      sample_ids.push_back(id * batch.choices + choice);
  batch.sample_ids = row_of(sample_ids);
  if (std::ranges::all_of(encoded, &EncodedSample::labelled)) fill_targets(dataset, encoded, batch);
  return batch;
}

std::vector<int> micro_batch_ranks(const TaskLoaderOptions& options) {
  const std::int64_t parts =
      (options.batch_size + options.micro_batch_size - 1) / options.micro_batch_size;
  require_input(parts >= options.world_size,
                "task loader: batch_size {} makes {} micro-batches of {}, too few for {} ranks",
                options.batch_size, parts, options.micro_batch_size, options.world_size);
  std::vector<int> ranks;
  for (std::int64_t part = 0; part < parts; ++part)
    ranks.push_back(static_cast<int>(part % options.world_size));
  return ranks;
}

/// A sample of a step, by its position in the run.
struct TaskLoader::Use {
  std::int64_t length, place, sample;
  auto operator<=>(const Use&) const = default;
};

TaskLoader::TaskLoader(std::shared_ptr<const TaskDataset> dataset, TaskLoaderOptions options,
                       std::int64_t first_step)
    : dataset_(std::move(dataset)),
      options_(options),
      order_((check(dataset_.get(), options), order_of(*dataset_, options))),
      step_(first_step) {
  require(first_step >= 0, "task loader: step {}", first_step);
  require_input(options.unlabelled || dataset_->target() != TaskTarget::none,
                "task loader: the data says nothing to learn");
  for (std::int64_t i = 0; i < dataset_->size() && !options.unlabelled; ++i)
    require_input(dataset_->sample(i).labelled,
                  "task loader: example {} (counted from 0) has no label",
                  dataset_->sample(i).example);
  micro_batch_ranks(options);
  if (!options.unlabelled) weights_ = label_weights(*dataset_);
  if (!dataset_->has_bags()) return;
  const std::int64_t own = std::ssize(parts_of(step_)),
                     last = std::numeric_limits<std::int64_t>::max();
  ahead_ = std::make_unique<Prefetcher>(step_ * own, last, read_ahead_threads, read_ahead_threads,
                                        [this, own](std::int64_t number) {
                                          const auto at = static_cast<std::size_t>(number % own);
                                          return make(parts_of(number / own)[at], true);
                                        });
}

Batch TaskLoader::make(const std::vector<Use>& part, bool read_bags) const {
  std::vector<std::int64_t> samples, ids;
  std::vector<double> weights;
  for (const Use& use : part) {
    samples.push_back(use.sample);
    ids.push_back(use.place);
    const double of_label =
        weights_.empty() ? 1
                         : weights_[static_cast<std::size_t>(dataset_->sample(use.sample).label)];
    weights.push_back(of_label * dataset_->weight(use.sample));
  }
  Batch batch = make_task_batch(*dataset_, samples, ids, read_bags);
  if (std::ranges::any_of(weights, [](double weight) { return weight != 1; }))
    batch.weights = std::move(weights);
  return batch;
}

std::vector<Batch> TaskLoader::next() {
  step_targets_ = 0;
  for (std::int64_t i = 0; i < options_.batch_size; ++i)
    step_targets_ += targets_of(*dataset_, order_(step_ * options_.batch_size + i));
  std::vector<Batch> batches;
  for (const auto& part : parts_of(step_)) batches.push_back(make(part, false));
  ++step_;
  return batches;
}

Batch TaskLoader::whole(const Batch& batch) { return ahead_ ? *ahead_->next() : batch; }

/// The samples of each micro-batch of this rank.
std::vector<std::vector<TaskLoader::Use>> TaskLoader::parts_of(std::int64_t step) const {
  std::vector<Use> uses;
  for (std::int64_t i = 0; i < options_.batch_size; ++i) {
    const std::int64_t place = step * options_.batch_size + i, sample = order_(place);
    uses.push_back({dataset_->length(sample), place, sample});
  }
  std::ranges::sort(uses);
  const std::int64_t size = options_.micro_batch_size;
  std::vector<std::vector<Use>> parts;
  for (std::int64_t begin = size * options_.rank; begin < std::ssize(uses);
       begin += size * options_.world_size)
    parts.emplace_back(uses.begin() + begin,
                       uses.begin() + std::min(begin + size, std::ssize(uses)));
  return parts;
}

TaskEvaluationLoader::TaskEvaluationLoader(std::shared_ptr<const TaskDataset> dataset,
                                           TaskLoaderOptions options)
    : dataset_(std::move(dataset)) {
  check(dataset_.get(), options);
  const std::int64_t size = std::min(options.most, dataset_->size()),
                     window = window_batches * options.micro_batch_size,
                     most_rows = dataset_->has_bags() ? bag_rows_at_once
                                                      : std::numeric_limits<std::int64_t>::max();
  for (std::int64_t begin = 0; begin < size; begin += window) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = begin; i < std::min(begin + window, size); ++i)
      lengths.push_back(dataset_->length(i));
    for (auto& batch : batches_by_length(lengths, options.micro_batch_size, most_rows)) {
      for (std::int64_t& sample : batch) sample += begin;
      batches_.push_back(std::move(batch));
    }
  }
  const std::int64_t own = (batches() - options.rank + options.world_size - 1) / options.world_size;
  ahead_ = std::make_unique<Prefetcher>(
      0, own, read_ahead_threads, read_ahead_threads, [this, options](std::int64_t number) {
        const auto& samples =
            batches_[static_cast<std::size_t>(options.rank + number * options.world_size)];
        return make_task_batch(*dataset_, samples, samples);
      });
}

}  // namespace nystrom
