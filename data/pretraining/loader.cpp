#include "data/pretraining/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "core/check.h"

namespace nystrom {
namespace {

constexpr int loader_threads = 1;
constexpr std::int64_t micro_batches_ahead = 8;

void check(const LoaderOptions& options) {
  require_input(options.batch_size >= 1 && options.micro_batch_size >= 1,
                "loader: batch_size {} and micro_batch_size {} must be at least 1",
                options.batch_size, options.micro_batch_size);
  require(options.rank >= 0 && options.rank < options.world_size, "loader: rank {} of {}",
          options.rank, options.world_size);
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The first sequence of a step for `rank`.
std::int64_t first_row(const LoaderOptions& options, int rank) {
  return rank * options.batch_size / options.world_size * options.sequences_for_one;
}

/// The largest number of sequences of a micro-batch.
std::int64_t micro_batch_of(const LoaderOptions& options) {
  return options.micro_batch_size * options.sequences_for_one;
}

}  // namespace

double sampling_weight(const MaskedSamples& source) {
  return source.weight.value_or(static_cast<double>(source.packing->size()));
}

Batch make_batch(std::span<const MaskedSamples> sources, std::span<const SampleUse> uses,
                 std::optional<double> masked_share) {
  Batch result;
  result.input.offsets = {0};
  std::vector<std::int64_t> ids, types, labels, swapped, sample_ids;
  for (const SampleUse& use : uses) {
    const MaskedSamples& source = sources[use.source];
    const MaskingKey key{source.seed, static_cast<std::uint64_t>(use.epoch),
                         static_cast<std::uint64_t>(use.sample)};
    std::vector<std::int64_t> own = source.packing->ids(use.sample);
    if (source.masking.sentence_order) {
      Segments segments = cut_in_segments(own, *source.table, key);
      own = std::move(segments.ids);
      types.insert(types.end(), segments.types.begin(), segments.types.end());
      swapped.push_back(segments.swapped);
    }
    labels.resize(labels.size() + own.size());
    MaskingConfig masking = source.masking;
    if (masked_share) masking.probability = *masked_share;
    const auto lengths = sequence_lengths(*source.packing, use.sample, own);
    result.targets +=
        mask_tokens(own, std::span(labels).last(own.size()), *source.table, masking, key, lengths);
    std::int64_t number = use.id * source.packing->most_sequences();
    for (const std::int64_t length : lengths) {
      result.input.offsets.push_back(result.input.offsets.back() + length);
      sample_ids.push_back(number++);
    }
    ids.insert(ids.end(), own.begin(), own.end());
  }
  const auto tensor = [](const std::vector<std::int64_t>& numbers) {
    return Tensor::from(numbers, {std::ssize(numbers)});
  };
  result.input.input_ids = tensor(ids);
  result.labels = tensor(labels);
  result.sample_ids = tensor(sample_ids);
  if (!swapped.empty()) {
    result.input.token_type_ids = tensor(types);
    result.swapped = tensor(swapped);
  }
  result.tokens = std::ssize(ids);
  return result;
}

struct Prefetcher::State {
  struct Result {
    Batch batch;
    std::exception_ptr error;
  };
  std::function<Batch(std::int64_t)> make;
  std::int64_t end, ahead;
  std::mutex mutex;  // protects everything below
  std::condition_variable room, arrival;
  bool stop = false;
  std::int64_t begun, taken;
  std::map<std::int64_t, Result> ready;
  std::vector<std::thread> workers;

  State(std::int64_t first, std::int64_t last, std::int64_t most,
        std::function<Batch(std::int64_t)> function)
      : make(std::move(function)), end(last), ahead(most), begun(first), taken(first) {}

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      room.wait(lock, [&] { return stop || begun == end || begun < taken + ahead; });
      if (stop || begun == end) return;
      const std::int64_t number = begun++;
      lock.unlock();
      Result result;
      try {
        result.batch = make(number);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      ready.emplace(number, std::move(result));
      arrival.notify_all();
    }
  }

  /// Ends all workers.
  void end_workers() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    room.notify_all();
    for (std::thread& worker : workers) worker.join();
  }
};

Prefetcher::Prefetcher(std::int64_t first, std::int64_t end, int workers, std::int64_t ahead,
                       std::function<Batch(std::int64_t)> make)
    : state_(std::make_unique<State>(first, end, ahead, std::move(make))) {
  try {
    for (int i = 0; i < workers; ++i)
      state_->workers.emplace_back([state = state_.get()] { state->work(); });
  } catch (...) {  // the system gave no thread more
    state_->end_workers();
    throw;
  }
}

Prefetcher::~Prefetcher() { state_->end_workers(); }

std::optional<Batch> Prefetcher::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.taken == s.end) return std::nullopt;
  s.arrival.wait(lock, [&] { return s.ready.contains(s.taken); });
  const auto found = s.ready.find(s.taken);
  if (found->second.error) std::rethrow_exception(found->second.error);
  Batch batch = std::move(found->second.batch);
  s.ready.erase(found);
  ++s.taken;
  s.room.notify_all();
  return batch;
}

Loader::Loader(std::vector<MaskedSamples> sources, LoaderOptions options, std::int64_t first_step)
    : sources_(std::move(sources)), options_(std::move(options)) {
  check(options_);
  std::vector<double> weights;
  for (const MaskedSamples& source : sources_) {
    orders_.emplace_back(source.packing->size(), source.seed);
    weights.push_back(sampling_weight(source));
  }
  if (sources_.size() > 1) mixture_.emplace(weights, sources_[0].seed);
  require(first_step >= 0, "loader: step {}", first_step);
  require_input(options_.batch_size >= options_.world_size,
                "loader: batch_size {} leaves some of the {} ranks without a sequence",
                options_.batch_size, options_.world_size);
  first_row_ = first_row(options_, options_.rank);
  rows_ = first_row(options_, options_.rank + 1) - first_row_;
  units_per_step_ = divide_up(rows_, micro_batch_of(options_));
  batches_ = std::make_unique<Prefetcher>(
      first_step * units_per_step_, std::numeric_limits<std::int64_t>::max(), loader_threads,
      micro_batches_ahead, [this](std::int64_t unit) { return make(unit); });
}

std::vector<int> micro_batch_ranks(const LoaderOptions& options) {
  std::vector<int> ranks;
  for (int rank = 0; rank < options.world_size; ++rank) {
    const std::int64_t rows = first_row(options, rank + 1) - first_row(options, rank);
    ranks.insert(ranks.end(), static_cast<std::size_t>(divide_up(rows, micro_batch_of(options))),
                 rank);
  }
  return ranks;
}

/// The sample at a position of the training data.
SampleUse Loader::draw(std::int64_t place) const {
  const auto [source, number] = mixture_ ? (*mixture_)(place) : SourceOrder::Draw{0, place};
  const SampleOrder& order = orders_[source];
  return {order(number), number / order.size(), place, source};
}

Batch Loader::make(std::int64_t unit) const {
  const std::int64_t step = unit / units_per_step_, size = micro_batch_of(options_),
                     begin = unit % units_per_step_ * size,
                     batch = options_.batch_size * options_.sequences_for_one;
  std::vector<SampleUse> uses;
  for (std::int64_t row = begin; row < std::min(begin + size, rows_); ++row)
    uses.push_back(draw(options_.first_place + step * batch + first_row_ + row));
  return make_batch(
      sources_, uses,
      options_.masked_share ? std::optional(options_.masked_share(step)) : std::nullopt);
}

std::vector<Batch> Loader::next() {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < units_per_step_; ++i) batches.push_back(*batches_->next());
  return batches;
}

Prefetcher evaluation_batches(const MaskedSamples& source, const LoaderOptions& options) {
  check(options);
  const std::int64_t size = options.micro_batch_size, samples = source.packing->size();
  const std::int64_t all = divide_up(samples, size),
                     mine = divide_up(all - std::min<std::int64_t>(all, options.rank),
                                      options.world_size);
  return Prefetcher(0, mine, loader_threads, micro_batches_ahead, [=](std::int64_t number) {
    const std::int64_t begin = (number * options.world_size + options.rank) * size;
    std::vector<SampleUse> uses;
    for (std::int64_t sample = begin; sample < std::min(begin + size, samples); ++sample)
      uses.push_back({sample, 0, sample});
    return make_batch(std::span(&source, 1), uses);
  });
}

}  // namespace nystrom
