#include "data/tasks/embedding_data.h"

#include <algorithm>

#include "core/rng.h"

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;

/// The random words of draw `draw` for the sample at `place` of the run.
PhiloxBlock draws(std::uint64_t seed, std::int64_t place, std::uint32_t draw) {
  constexpr std::uint64_t stream = 0x656d626564;  // "embed"
  const auto p = static_cast<std::uint64_t>(place);
  return philox(philox_key(seed, stream),
                {{static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(p >> 32), draw, 0}});
}

/// A number from 0 to below − 1.
std::int64_t below(std::uint32_t word, std::int64_t limit) {
  return static_cast<std::int64_t>(uniform_open(word) * static_cast<double>(limit));
}

/// The first `prompt` tokens of a text, and a random part of the others: a tenth to a half of them,
/// of at most `room` tokens with the prompt's.
Ids crop(const Ids& text, std::int64_t prompt, std::int64_t room, const PhiloxBlock& words) {
  prompt = std::min({prompt, std::ssize(text), room});
  const std::int64_t all = std::ssize(text) - prompt,
                     shortest = std::min(std::max<std::int64_t>(all / 10, 1), all),
                     longest = std::max(all / 2, shortest);
  const std::int64_t size =
      std::min(shortest + below(words.word[0], longest - shortest + 1), room - prompt);
  const std::int64_t begin = prompt + below(words.word[1], all - size + 1);
  Ids result(text.begin(), text.begin() + prompt);
  result.insert(result.end(), text.begin() + begin, text.begin() + begin + size);
  return result;
}

}  // namespace

/// A sample of a step: `length` of its longest row, `place` in the run.
struct EmbeddingLoader::Use {
  std::int64_t length, place, sample;
  /// The texts of its rows. For labels the second is drawn.
  std::vector<std::int64_t> texts;
  auto operator<=>(const Use&) const = default;
};

EmbeddingLoader::EmbeddingLoader(std::shared_ptr<const EmbeddingDataset> dataset,
                                 const Tokenizer& tokenizer, TaskLoaderOptions options,
                                 std::int64_t sequence_length, std::int64_t first_step)
    : dataset_(std::move(dataset)),
      tokenizer_(tokenizer),
      options_(options),
      sequence_length_(sequence_length),
      order_(std::ssize(dataset_->content().samples), options.seed),
      step_(first_step) {
  micro_batch_ranks(options);  // throws when a rank has none
}

std::vector<EmbeddingLoader::Use> EmbeddingLoader::uses_of_step() const {
  const EmbeddingTexts& data = dataset_->content();
  std::vector<Use> uses;
  for (std::int64_t i = 0; i < options_.batch_size; ++i) {
    Use use{0, step_ * options_.batch_size + i, 0, {}};
    use.sample = order_(use.place);
    const EmbeddingSample& sample = data.samples[static_cast<std::size_t>(use.sample)];
    use.texts = sample.texts;
    if (data.roles == TextRoles::texts) use.texts.push_back(use.texts[0]);
    if (data.roles == TextRoles::labels) {
      const auto& same = data.of_label[static_cast<std::size_t>(sample.label)];
      const std::int64_t own = std::ranges::lower_bound(same, use.sample) - same.begin();
      const auto other = below(draws(options_.seed, use.place, 0).word[0], std::ssize(same) - 1);
      const std::int64_t chosen = same[static_cast<std::size_t>(other < own ? other : other + 1)];
      use.texts.push_back(data.samples[static_cast<std::size_t>(chosen)].texts[0]);
    }
    for (std::int64_t column = 0; column < std::ssize(use.texts); ++column)
      use.length = std::max<std::int64_t>(
          use.length,
          std::ssize(dataset_->tokens(use.texts[static_cast<std::size_t>(column)], column)));
    uses.push_back(std::move(use));
  }
  std::ranges::sort(uses);
  return uses;
}

std::vector<WrappedIds> EmbeddingLoader::rows_of(const Use& use) const {
  const std::int64_t room = sequence_length_ - std::ssize(tokenizer_.wrap({}).ids);
  std::vector<WrappedIds> rows;
  for (const std::int64_t text : use.texts) {
    const auto column = std::ssize(rows);
    const Ids& ids = dataset_->tokens(text, column);
    const auto draw = static_cast<std::uint32_t>(column);
    rows.push_back(tokenizer_.wrap(dataset_->crops()
                                       ? crop(ids, dataset_->prompt_tokens(column), room,
                                              draws(options_.seed, use.place, draw))
                                       : ids));
  }
  return rows;
}

Batch EmbeddingLoader::batch_of(std::span<const Use> uses) const {
  Batch batch;
  batch.choices = dataset_->content().columns();
  std::vector<WrappedIds> rows;
  std::vector<std::int64_t> ids;
  for (const Use& use : uses) {
    batch.samples.push_back(use.sample);
    for (WrappedIds& row : rows_of(use)) {
      ids.push_back(use.place * batch.choices + std::ssize(rows) % batch.choices);
      rows.push_back(std::move(row));
    }
  }
  batch.input = joined_rows(rows);
  batch.tokens = batch.input.offsets.back();
  batch.sample_ids = Tensor::from(ids, {std::ssize(ids)});
  batch.targets = std::ssize(uses);
  return batch;
}

EmbeddingStep EmbeddingLoader::next() {
  const std::vector<Use> uses = uses_of_step();
  EmbeddingStep step;
  step.samples = std::ssize(uses);
  step.texts.resize(static_cast<std::size_t>(dataset_->content().columns()));
  for (const Use& use : uses) {
    for (std::size_t column = 0; column < step.texts.size(); ++column)
      step.texts[column].push_back(use.texts[column]);
    if (dataset_->content().roles == TextRoles::scores)
      step.scores.push_back(
          dataset_->content().samples[static_cast<std::size_t>(use.sample)].score);
  }
  const std::int64_t size = options_.micro_batch_size;
  for (std::int64_t begin = size * options_.rank; begin < step.samples;
       begin += size * options_.world_size) {
    const std::int64_t end = std::min(begin + size, step.samples);
    step.first.push_back(begin);
    step.batches.push_back(batch_of(std::span(uses).subspan(
        static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))));
  }
  ++step_;
  return step;
}

}  // namespace nystrom
