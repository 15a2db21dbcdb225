#include "train/objectives/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "data/text/text.h"
#include "train/loop/train_step.h"
#include "train/objectives/task_settings.h"

namespace nystrom {

std::vector<std::int64_t> count_tokens(std::span<const MaskedSamples> sources) {
  constexpr std::int64_t block = std::int64_t{1} << 20;
  const TokenSetInfo& info = sources[0].packing->dataset().info();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(info.vocab_size), 0);
  for (const MaskedSamples& source : sources) {
    const TokenDataset& dataset = source.packing->dataset();
    for (std::int64_t first = 0; first < dataset.tokens(); first += block)
      for (const std::uint32_t id : dataset.read(first, std::min(block, dataset.tokens() - first)))
        ++counts[id];
  }
  for (const std::int64_t id : ids_of(info.special)) counts[static_cast<std::size_t>(id)] = 0;
  return counts;
}

std::shared_ptr<const Packing> packing_of(std::shared_ptr<const TokenDataset> dataset,
                                          std::int64_t length, const RunConfig& config) {
  return std::make_shared<Packing>(
      std::move(dataset),
      PackingOptions{.sequence_length = length,
                     .cross_documents = config.data.cross_documents,
                     .isolated = config.data.packing == SequencePacking::isolated,
                     .reserved = config.masking.sentence_order ? 1 : 0});
}

MaskedSamples masked_samples(std::shared_ptr<const TokenDataset> dataset,
                             const Tokenizer& tokenizer, const RunConfig& config) {
  const TokenSetInfo& info = dataset->info();
  std::vector<std::string> surfaces;
  for (std::int64_t id = 0; tokenizer.marks_words() && id < info.vocab_size; ++id)
    surfaces.push_back(tokenizer.surface(static_cast<std::int32_t>(id)));
  MaskedSamples result;
  result.packing = packing_of(std::move(dataset), config.data.sequence_length, config);
  result.table = std::make_shared<MaskingTable>(info.vocab_size, info.special.mask,
                                                ids_of(info.special), std::move(surfaces));
  result.masking = config.masking;
  result.seed = static_cast<std::uint64_t>(config.seed);
  return result;
}

namespace {

/// Throws an InputError unless a token of the samples can be masked.
void require_targets(const MaskedSamples& samples) {
  for (std::int64_t i = 0; i < samples.packing->size(); ++i)
    for (const std::int64_t id : samples.packing->ids(i))
      if (!samples.table->is_special(id)) return;
  throw InputError(
      "no token can be masked: all are unknown to the tokenizer, which does not fit the text; name "
      "another tokenizer, or leave this text out");
}

}  // namespace

std::vector<MaskedSamples> masked_sources(const std::vector<CorpusSource>& sources,
                                          const Tokenizer& tokenizer, const RunConfig& config) {
  std::vector<MaskedSamples> all;
  for (const CorpusSource& source : sources) {
    with_context(source.origin, [&] {
      MaskedSamples samples;
      if (all.empty()) {
        samples = masked_samples(source.tokens, tokenizer, config);
      } else {
        samples = all[0];  // with its table, which holds the text of every id
        samples.packing = packing_of(source.tokens, config.data.sequence_length, config);
      }
      samples.weight = source.weight;
      require_targets(samples);
      all.push_back(std::move(samples));
    });
  }
  return all;
}

std::unique_ptr<Loader> training_loader(const RunConfig& config,
                                        const std::vector<CorpusSource>& sources,
                                        std::vector<MaskedSamples> samples, LoaderOptions options,
                                        const Stage& stage, std::int64_t batch) {
  std::int64_t all = 0;
  for (const MaskedSamples& source : samples) all += source.packing->size();
  options.sequences_for_one = config.data.sequence_length / stage.length;
  const std::int64_t parts = options.batch_size * options.sequences_for_one / stage.sequences;
  options.batch_size /= parts;
  options.micro_batch_size /= parts;
  options.first_place = stage.first;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].packing = packing_of(sources[i].tokens, stage.length, config);
    if (i > 0) samples[i].seed = mix64(samples[i].seed ^ i);  // other masks, other order
    // A text shorter than all lengths would come again at its place, with the same masks.
    if (stage.length != stages_of(config)[0].length)
      samples[i].seed = mix64(samples[i].seed ^ static_cast<std::uint64_t>(stage.length));
  }
  options.masked_share = [ramp = config.masking.probability, begin = stage.begin,
                          steps = total_steps(config.training, all)](std::int64_t step) {
    return ramp.at(begin + step, steps);
  };
  return std::make_unique<Loader>(std::move(samples), options, batch - stage.begin);
}

TextSamples::TextSamples(const ModelFolder& folder, const std::vector<std::string>& patterns,
                         const std::vector<std::string>& overrides)
    : config(masked_lm_settings(folder, overrides)),
      tokenizer(open_masked_lm_tokenizer(folder)),
      files(match_texts(patterns, text_form(config.data))) {
  with_context(printable_path(folder.path),
               [&] { require_pretraining_tokens(*tokenizer, config); });
}

void TextSamples::tokenize(Log& log, const std::function<bool(const TextPiece&)>& takes) {
  auto tokens =
      tokenize_text_option(files, config, *tokenizer, scratch.path() / "tokens", log, takes);
  samples = masked_samples(std::move(tokens), *tokenizer, config);
}

Evaluation mean_of(std::span<const Evaluation> sources) {
  if (sources.size() == 1) return sources[0];
  Evaluation mean;
  double ordered = 0;
  for (const Evaluation& one : sources) {
    const auto tokens = static_cast<double>(one.tokens);
    mean.loss += one.loss * tokens;
    mean.accuracy += one.accuracy * tokens;
    mean.frequency_loss += one.frequency_loss * tokens;
    mean.frequency_accuracy += one.frequency_accuracy * tokens;
    mean.tokens += one.tokens;
    mean.sequences += one.sequences;
    ordered += one.order_accuracy.value_or(0) * static_cast<double>(one.sequences);
  }
  for (double* sum : {&mean.loss, &mean.accuracy, &mean.frequency_loss, &mean.frequency_accuracy})
    *sum /= static_cast<double>(mean.tokens);
  if (sources[0].order_accuracy)
    mean.order_accuracy = ordered / static_cast<double>(mean.sequences);
  return mean;
}

std::vector<double> sums_over_samples(const MaskedSamples& samples, std::int64_t micro_batch_size,
                                      std::size_t quantities, Communicator& communicator,
                                      const std::function<void(std::int64_t)>& progress,
                                      const MeasureBatch& measure) {
  LoaderOptions options{micro_batch_size, micro_batch_size};
  options.rank = communicator.rank();
  options.world_size = communicator.size();
  Prefetcher batched = evaluation_batches(samples, options);
  const std::int64_t total = samples.packing->size(),
                     batches = (total + micro_batch_size - 1) / micro_batch_size;
  std::vector<double> sums(quantities, 0);
  const auto compute = [&](std::int64_t) {
    check_interruption();
    std::vector<double> found(quantities, 0);
    measure(*batched.next(), found);
    return found;
  };
  communicator.share(batches, compute, [&](std::int64_t batch, std::span<const double> found) {
    for (std::size_t i = 0; i < quantities; ++i) sums[i] += found[i];
    if (progress) progress(std::min((batch + 1) * micro_batch_size, total));
  });
  return sums;
}

Evaluation evaluate_masked_lm(const Model& model, const MaskedSamples& samples,
                              std::int64_t micro_batch_size, Communicator& communicator,
                              const std::function<void(std::int64_t)>& progress,
                              std::span<const std::int64_t> counts) {
  std::vector<std::int64_t> own;
  if (counts.empty()) counts = own = count_tokens(std::span(&samples, 1));
  const auto most_frequent = std::max_element(counts.begin(), counts.end()) - counts.begin();
  const double log_total =
      std::log(static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
  require_input(!samples.masking.sentence_order || model.config().sentence_order,
                "masking.sentence_order is true, but the model has no sentence-order head "
                "(cls.seq_relationship); set it to false");
  enum Quantity {
    loss,
    frequency_loss,
    correct,
    masked,
    ordered,
    most_frequent_masked,
    quantities
  };
  const auto measure = [&](const Batch& batch, std::span<double> here) {
    const MaskedLmOutput out = model.masked_lm(batch.input, batch.labels, 1, {});
    here[loss] = out.loss.value().item();
    here[correct] = static_cast<double>(count_equal(out.predictions, out.labels));
    here[masked] = static_cast<double>(batch.targets);
    if (samples.masking.sentence_order)
      here[ordered] = static_cast<double>(count_equal(argmax(out.order_logits), batch.swapped));
    const Tensor labels = out.labels.to(cpu_device);
    for (const std::int64_t label :
         std::span(labels.data<std::int64_t>(), static_cast<std::size_t>(labels.numel()))) {
      here[frequency_loss] +=
          log_total - std::log(static_cast<double>(counts[static_cast<std::size_t>(label)]));
      here[most_frequent_masked] += label == most_frequent;
    }
  };
  const std::vector<double> sum =
      sums_over_samples(samples, micro_batch_size, quantities, communicator, progress, measure);
  require_finite(std::span(&sum[loss], 1));
  const double tokens = sum[masked];
  require_input(tokens > 0, "the text holds no token to predict");
  Evaluation mean{sum[loss] / tokens, sum[correct] / tokens, sum[frequency_loss] / tokens,
                  sum[most_frequent_masked] / tokens, static_cast<std::int64_t>(tokens)};
  mean.sequences = samples.packing->size();
  if (samples.masking.sentence_order)
    mean.order_accuracy = sum[ordered] / static_cast<double>(mean.sequences);
  return mean;
}

std::vector<Batch> longest_sequences(MaskedSamples samples, std::int64_t count) {
  PackingOptions alone = samples.packing->options();
  alone.isolated = false;
  samples.packing =
      std::make_shared<Packing>(std::make_shared<TokenDataset>(samples.packing->dataset()), alone);
  const auto sequence_of = [&](std::int64_t sample) {
    const SampleUse use{sample, 0, sample};
    return make_batch({&samples, 1}, {&use, 1});
  };
  const std::int64_t size = samples.packing->size(), looked_at = std::min(size, 32 * count);
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // negative token count, sample
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t sample = i * size / looked_at;
    order.emplace_back(-sequence_of(sample).tokens, sample);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto is_longest = [&](const auto& each) { return each.first == order.front().first; };
  const auto longest =
      static_cast<std::size_t>(std::count_if(order.begin(), order.end(), is_longest));
  const std::size_t wanted = std::min(order.size(), static_cast<std::size_t>(count));
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < wanted; ++i)
    chosen.push_back(order[longest > wanted ? i * longest / wanted : i].second);
  std::sort(chosen.begin(), chosen.end());
  std::vector<Batch> result;
  for (const std::int64_t sample : chosen) result.push_back(sequence_of(sample));
  return result;
}

}  // namespace nystrom
