#include "data/pretraining/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "core/check.h"
#include "data/pretraining/filled.h"
#include "data/pretraining/segments.h"

namespace nystrom {
namespace {

void check(const MaskedSamples& source, const LoaderOptions& options) {
  check_masking(source.masking, *source.table);
  require_input(source.pad_multiple >= 1, "loader: rows cannot be padded to a multiple of {}",
                source.pad_multiple);
  require_input(options.batch_size >= 1 && options.micro_batch_size >= 1,
                "loader: batch_size {} and micro_batch_size {} must be at least 1",
                options.batch_size, options.micro_batch_size);
  require(options.workers >= 1 && options.prefetch >= 1,
          "loader: {} workers, {} micro-batches ahead", options.workers, options.prefetch);
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

Batch make_batch(const MaskedSamples& source, std::span<const SampleUse> uses) {
  const auto key_of = [&](const SampleUse& use) {
    return MaskingKey{source.seed, static_cast<std::uint64_t>(use.epoch),
                      static_cast<std::uint64_t>(use.sample)};
  };
  std::vector<std::vector<std::int64_t>> rows, types;
  std::vector<std::int64_t> swapped;
  std::size_t longest = 0;
  for (const SampleUse& use : uses) {
    rows.push_back(source.packing->ids(use.sample));
    if (source.sentence_order) {
      Segments segments = cut_in_segments(rows.back(), *source.table, key_of(use));
      rows.back() = std::move(segments.ids);
      types.push_back(std::move(segments.types));
      swapped.push_back(segments.swapped);
    }
    longest = std::max(longest, rows.back().size());
  }
  const auto batch = static_cast<std::int64_t>(rows.size());
  const std::int64_t rounded =
      divide_up(static_cast<std::int64_t>(longest), source.pad_multiple) * source.pad_multiple;
  const std::int64_t length = std::min(rounded, source.packing->options().sequence_length);
  Batch result;
  result.input.input_ids =
      filled({batch, length}, std::int64_t{source.packing->dataset().info().special.pad});
  result.input.attention_mask = filled({batch, length}, std::uint8_t{0});
  result.labels = filled({batch, length}, ignore_index);
  result.sample_ids = Tensor::empty({batch}, DType::i64);
  if (source.sentence_order) {
    result.input.token_type_ids = filled({batch, length}, std::int64_t{0});
    result.swapped = Tensor::from(swapped, {batch});
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t count = rows[row].size(), begin = row * static_cast<std::size_t>(length);
    const std::span<std::int64_t> labels(result.labels.data<std::int64_t>() + begin, count);
    result.targets +=
        mask_tokens(rows[row], labels, *source.table, source.masking, key_of(uses[row]));
    result.tokens += static_cast<std::int64_t>(count);
    std::copy(rows[row].begin(), rows[row].end(),
              result.input.input_ids.data<std::int64_t>() + begin);
    std::fill_n(result.input.attention_mask.data<std::uint8_t>() + begin, count, std::uint8_t{1});
    if (source.sentence_order)
      std::copy(types[row].begin(), types[row].end(),
                result.input.token_type_ids.data<std::int64_t>() + begin);
    result.sample_ids.data<std::int64_t>()[row] = uses[row].id;
  }
  if (result.tokens == batch * length) result.input.attention_mask = Tensor();
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
};

Prefetcher::Prefetcher(std::int64_t first, std::int64_t end, int workers, std::int64_t ahead,
                       std::function<Batch(std::int64_t)> make)
    : state_(std::make_unique<State>(first, end, ahead, std::move(make))) {
  for (int i = 0; i < workers; ++i)
    state_->workers.emplace_back([state = state_.get()] { state->work(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->room.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

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

Loader::Loader(MaskedSamples source, LoaderOptions options, std::int64_t first_step)
    : source_(std::move(source)),
      options_(options),
      order_(source_.packing->size(), source_.seed),
      step_(first_step) {
  check(source_, options_);
  require(first_step >= 0, "loader: step {}", first_step);
  require_input(options_.batch_size >= options_.world_size,
                "loader: batch_size {} leaves some of the {} ranks without a sequence",
                options_.batch_size, options_.world_size);
  first_row_ = first_row(options_, options_.rank);
  rows_ = first_row(options_, options_.rank + 1) - first_row_;
  units_per_step_ = divide_up(rows_, micro_batch_of(options_));
  batches_ = std::make_unique<Prefetcher>(
      first_step * units_per_step_, std::numeric_limits<std::int64_t>::max(), options_.workers,
      options_.prefetch, [this](std::int64_t unit) { return make(unit); });
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

Batch Loader::make(std::int64_t unit) const {
  const std::int64_t step = unit / units_per_step_, size = micro_batch_of(options_),
                     begin = unit % units_per_step_ * size,
                     batch = options_.batch_size * options_.sequences_for_one;
  std::vector<SampleUse> uses;
  for (std::int64_t row = begin; row < std::min(begin + size, rows_); ++row) {
    const std::int64_t place = step * batch + first_row_ + row, epoch = place / order_.size();
    uses.push_back({order_(epoch, place % order_.size()), epoch, place});
  }
  return make_batch(source_, uses);
}

std::vector<Batch> Loader::next() {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < units_per_step_; ++i) batches.push_back(*batches_->next());
  ++step_;
  return batches;
}

EvaluationLoader::EvaluationLoader(MaskedSamples source, LoaderOptions options)
    : source_(std::move(source)) {
  check(source_, options);
  const std::int64_t size = options.micro_batch_size, samples = source_.packing->size();
  const std::int64_t all = divide_up(samples, size),
                     mine = divide_up(all - std::min<std::int64_t>(all, options.rank),
                                      options.world_size);
  batches_ = std::make_unique<Prefetcher>(
      0, mine, options.workers, options.prefetch,
      [this, options, size, samples](std::int64_t number) {
        const std::int64_t begin = (number * options.world_size + options.rank) * size;
        std::vector<SampleUse> uses;
        for (std::int64_t sample = begin; sample < std::min(begin + size, samples); ++sample)
          uses.push_back({sample, 0, sample});
        return make_batch(source_, uses);
      });
}

}  // namespace nystrom
