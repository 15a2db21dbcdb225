#include "data/tasks/task_loader.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "data/pretraining/filled.h"

namespace nystrom {
namespace {

constexpr std::int64_t window_batches = 64;

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
  require(options.padding.multiple >= 1, "task loader: padding to a multiple of {}",
          options.padding.multiple);
}

/// The length of rows whose longest has `longest` tokens.
std::int64_t padded_length(std::int64_t longest, const PaddingOptions& padding) {
  longest = std::max<std::int64_t>(longest, 1);  // even if all texts are empty
  const std::int64_t rounded =
      (longest + padding.multiple - 1) / padding.multiple * padding.multiple;
  const std::int64_t length = std::min(rounded, padding.sequence_length);
  require(longest <= length, "task batch: {} tokens in a row of {}", longest, length);
  return length;
}

/// Fills one batch.
class BatchMaker {
 public:
  BatchMaker(const TaskDataset& dataset, std::span<const std::int64_t> samples,
             std::span<const std::int64_t> ids, const PaddingOptions& padding)
      : data_(dataset), samples_(samples), ids_(ids), padding_(padding) {
    require(samples.size() == ids.size() && !samples.empty(), "task batch: {} samples with {} ids",
            samples.size(), ids.size());
    batch_.samples.assign(samples.begin(), samples.end());
    if (dataset.kind() != TaskKind::features)
      batch_.choices = static_cast<std::int64_t>(sample(0).rows.size());
    rows_ = size() * batch_.choices;
  }

  Batch make() {
    if (data_.kind() == TaskKind::features)
      fill_features();
    else
      fill_tokens();
    fill_sample_ids();
    if (std::ranges::all_of(samples_,
                            [&](std::int64_t sample) { return data_.sample(sample).labelled; }))
      fill_targets();
    return std::move(batch_);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(samples_.size()); }
  const EncodedSample& sample(std::int64_t i) const {
    return data_.sample(samples_[static_cast<std::size_t>(i)]);
  }

  void fill_tokens() {
    std::vector<const WrappedIds*> rows;
    for (std::int64_t i = 0; i < size(); ++i) {
      for (const WrappedIds& row : sample(i).rows) {
        rows.push_back(&row);
        batch_.tokens += static_cast<std::int64_t>(row.ids.size());
      }
    }
    batch_.input = padded_rows(rows, data_.pad_id(), padding_);
    length_ = batch_.input.input_ids.dim(1);
  }

  void fill_features() {
    std::int64_t longest = 0;
    for (const std::int64_t sample : samples_) longest = std::max(longest, data_.length(sample));
    length_ = padded_length(longest, padding_);
    batch_.input.attention_mask = filled({rows_, length_}, std::uint8_t{0});
    const std::int64_t width = data_.width();
    batch_.input.features = filled({rows_, length_, width}, 0.0F);
    for (std::int64_t i = 0; i < size(); ++i) {
      const std::int64_t steps = data_.length(samples_[static_cast<std::size_t>(i)]);
      data_.read_sample_features(samples_[static_cast<std::size_t>(i)],
                                 {batch_.input.features.data<float>() + i * length_ * width,
                                  static_cast<std::size_t>(steps * width)});
      std::fill_n(batch_.input.attention_mask.data<std::uint8_t>() + i * length_, steps,
                  std::uint8_t{1});
      batch_.tokens += steps;
    }
    if (batch_.tokens == rows_ * length_) batch_.input.attention_mask = Tensor();
  }

  void fill_sample_ids() {
    std::vector<std::int64_t> ids;
    for (const std::int64_t id : ids_)
      for (std::int64_t choice = 0; choice < batch_.choices; ++choice)
        ids.push_back(id * batch_.choices + choice);
    batch_.sample_ids = row_of(ids);
  }

  void fill_targets() {
    batch_.targets = size();
    switch (data_.target()) {
      case TaskTarget::classes:
      case TaskTarget::choice: batch_.labels = of_each(&EncodedSample::label); break;
      case TaskTarget::value: fill_values(); break;
      case TaskTarget::word_classes: fill_word_labels(); break;
      case TaskTarget::span:
        batch_.start_positions = of_each(&EncodedSample::start);
        batch_.end_positions = of_each(&EncodedSample::end);
        break;
      case TaskTarget::none: batch_.targets = 0;
    }
  }

  Tensor of_each(std::int64_t EncodedSample::*member) const {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < size(); ++i) values.push_back(sample(i).*member);
    return row_of(values);
  }

  void fill_values() {
    std::vector<float> values;
    for (std::int64_t i = 0; i < size(); ++i) values.push_back(static_cast<float>(sample(i).value));
    batch_.labels = row_of(values);
  }

  void fill_word_labels() {
    batch_.labels = filled({rows_, length_}, ignore_index);
    batch_.targets = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
      for (std::size_t word = 0; word < sample(i).word_starts.size(); ++word) {
        const std::int64_t start = sample(i).word_starts[word];
        if (start < 0) continue;
        batch_.labels.data<std::int64_t>()[i * length_ + start] = sample(i).word_labels[word];
        ++batch_.targets;
      }
    }
  }

  const TaskDataset& data_;
  std::span<const std::int64_t> samples_, ids_;
  const PaddingOptions& padding_;
  std::int64_t length_ = 0, rows_ = 0;
  Batch batch_;
};

/// The number of targets that a sample adds to Batch::targets.
std::int64_t targets_of(const TaskDataset& dataset, std::int64_t index) {
  if (dataset.target() != TaskTarget::word_classes) return 1;
  return std::ranges::count_if(dataset.sample(index).word_starts,
                               [](std::int64_t start) { return start >= 0; });
}

}  // namespace

ModelInput padded_rows(std::span<const WrappedIds* const> rows, std::int32_t pad_id,
                       const PaddingOptions& padding) {
  std::size_t longest = 0, tokens = 0;
  for (const WrappedIds* row : rows) {
    longest = std::max(longest, row->ids.size());
    tokens += row->ids.size();
  }
  const std::int64_t length = padded_length(static_cast<std::int64_t>(longest), padding);
  const Shape shape{std::ssize(rows), length};
  ModelInput input;
  input.input_ids = filled(shape, std::int64_t{pad_id});
  Tensor types = filled(shape, std::int64_t{0}), mask = filled(shape, std::uint8_t{0});
  bool any_type = false;
  std::int64_t place = 0;
  for (const WrappedIds* row : rows) {
    std::ranges::copy(row->ids, input.input_ids.data<std::int64_t>() + place);
    std::ranges::copy(row->type_ids, types.data<std::int64_t>() + place);
    std::fill_n(mask.data<std::uint8_t>() + place, row->ids.size(), std::uint8_t{1});
    any_type |= std::ranges::any_of(row->type_ids, [](std::int32_t type) { return type != 0; });
    place += length;
  }
  if (any_type) input.token_type_ids = types;
  if (static_cast<std::int64_t>(tokens) < shape.numel()) input.attention_mask = mask;
  return input;
}

Batch make_task_batch(const TaskDataset& dataset, std::span<const std::int64_t> samples,
                      std::span<const std::int64_t> ids, const PaddingOptions& padding) {
  return BatchMaker(dataset, samples, ids, padding).make();
}

std::vector<int> micro_batch_ranks(const TaskLoaderOptions& options) {
  const std::int64_t parts =
      (options.batch_size + options.micro_batch_size - 1) / options.micro_batch_size;
  std::vector<int> ranks;
  for (std::int64_t part = 0; part < parts; ++part)
    ranks.push_back(static_cast<int>(part % options.world_size));
  return ranks;
}

TaskLoader::TaskLoader(std::shared_ptr<const TaskDataset> dataset, TaskLoaderOptions options,
                       std::int64_t first_step)
    : dataset_(std::move(dataset)),
      options_(options),
      order_((check(dataset_.get(), options), dataset_->size()), options.seed),
      step_(first_step) {
  require(first_step >= 0, "task loader: step {}", first_step);
  require_input(dataset_->target() != TaskTarget::none,
                "task loader: the data says nothing to learn");
  for (std::int64_t i = 0; i < dataset_->size(); ++i)
    require_input(dataset_->sample(i).labelled,
                  "task loader: example {} (counted from 0) has no label",
                  dataset_->sample(i).example);
  const std::size_t parts = micro_batch_ranks(options).size();
  require_input(static_cast<int>(parts) >= options.world_size,
                "task loader: batch_size {} makes {} micro-batches of {}, too few for {} ranks",
                options.batch_size, parts, options.micro_batch_size, options.world_size);
}

std::vector<Batch> TaskLoader::next() {
  struct Use {
    std::int64_t length, place, sample;
    auto operator<=>(const Use&) const = default;
  };
  std::vector<Use> uses;
  step_targets_ = 0;
  for (std::int64_t i = 0; i < options_.batch_size; ++i) {
    const std::int64_t place = step_ * options_.batch_size + i;
    const std::int64_t sample = order_(place / order_.size(), place % order_.size());
    uses.push_back({dataset_->length(sample), place, sample});
    step_targets_ += targets_of(*dataset_, sample);
  }
  std::ranges::sort(uses);
  const auto size = static_cast<std::size_t>(options_.micro_batch_size),
             stride = size * static_cast<std::size_t>(options_.world_size);
  std::vector<Batch> batches;
  for (std::size_t begin = size * static_cast<std::size_t>(options_.rank); begin < uses.size();
       begin += stride) {
    std::vector<std::int64_t> samples, ids;
    for (std::size_t i = begin; i < std::min(begin + size, uses.size()); ++i) {
      samples.push_back(uses[i].sample);
      ids.push_back(uses[i].place);
    }
    batches.push_back(make_task_batch(*dataset_, samples, ids, options_.padding));
  }
  ++step_;
  return batches;
}

TaskEvaluationLoader::TaskEvaluationLoader(std::shared_ptr<const TaskDataset> dataset,
                                           TaskLoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  check(dataset_.get(), options);
  order_.resize(static_cast<std::size_t>(dataset_->size()));
  std::iota(order_.begin(), order_.end(), 0);
  const std::int64_t window = window_batches * options.micro_batch_size;
  for (std::int64_t begin = 0; begin < dataset_->size(); begin += window) {
    const auto first = order_.begin() + begin,
               last = order_.begin() + std::min(begin + window, dataset_->size());
    std::stable_sort(first, last, [&](std::int64_t a, std::int64_t b) {
      return dataset_->length(a) < dataset_->length(b);
    });
  }
  for (std::int64_t begin = 0; begin < dataset_->size(); begin = ends_.back()) {
    const auto length = [&](std::int64_t place) {
      return dataset_->length(order_[static_cast<std::size_t>(place)]);
    };
    std::int64_t end = std::min(begin + options.micro_batch_size, dataset_->size());
    while (options.padding.equal_lengths && length(end - 1) != length(begin)) --end;
    ends_.push_back(end);
  }
  next_ = static_cast<std::size_t>(options.rank);
}

std::optional<Batch> TaskEvaluationLoader::next() {
  if (next_ >= ends_.size()) return std::nullopt;
  const std::int64_t begin = next_ == 0 ? 0 : ends_[next_ - 1];
  const std::span<const std::int64_t> samples(order_.begin() + begin,
                                              order_.begin() + ends_[next_]);
  next_ += static_cast<std::size_t>(options_.world_size);
  return make_task_batch(*dataset_, samples, samples, options_.padding);
}

}  // namespace nystrom
