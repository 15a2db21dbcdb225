#include "train/objectives/minimal_pairs.h"

#include <algorithm>
#include <cmath>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_loader.h"
#include "data/tasks/task_metrics.h"
#include "data/tasks/word_cut.h"
#include "data/text/table_reader.h"

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;

/// A row in which one token of a sentence is masked.
struct MaskedToken {
  std::size_t sentence;
  std::int64_t place;
  std::int32_t token;
};

/// The logarithm of the probability of `token` by its logits [1, vocab].
double log_probability(const Tensor& logits, std::int32_t token) {
  const std::vector<double> values = logits.cast(DType::f64).to_doubles();
  const double largest = *std::ranges::max_element(values);
  double total = 0;
  for (const double value : values) total += std::exp(value - largest);
  return values[static_cast<std::size_t>(token)] - largest - std::log(total);
}

/// Whether a token counts: all do but those that stand around every text.
auto scored_by(const Tokenizer& tokenizer) {
  return [empty = tokenizer.wrap({}).ids](std::int32_t token) {
    return std::ranges::find(empty, token) == empty.end();
  };
}

/// Whether two log-likelihoods differ by no more than the rounding of the logits, which are numbers
/// of 32 bits after some dozens of roundings: of equal likelihoods it would choose one by chance.
bool is_tie(double one, double other) {
  constexpr double rounding = 64 * 0x1p-24;
  return std::abs(one - other) <= rounding * std::max(std::abs(one), std::abs(other));
}

/// log(1 + eˣ), which is −log(1 − sigmoid(x)).
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

/// The likelihoods of a model with Head::replaced_tokens: see count_pairs.
std::vector<double> original_log_likelihoods(const Model& model, const Tokenizer& tokenizer,
                                             std::span<const Ids> ids, std::int64_t batch_size) {
  const auto is_scored = scored_by(tokenizer);
  std::vector<double> sums(ids.size(), 0);
  const auto add = [&](const std::vector<std::size_t>& batch, const ModelInput& input) {
    check_interruption();
    RunContext run;
    run.logits_only = true;
    const std::vector<double> logits = model(input, run).logits.value().to_doubles();
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const Ids& own = ids[batch[row]];
      const auto first = static_cast<std::size_t>(input.offsets[row]);
      for (std::size_t place = 0; place < own.size(); ++place)
        if (is_scored(own[place])) sums[batch[row]] -= softplus(logits[first + place]);
    }
  };
  for_each_batch({ids.begin(), ids.end()}, batch_size, add);
  return sums;
}

}  // namespace

std::vector<MinimalPair> read_minimal_pairs(const std::filesystem::path& file,
                                            const MinimalPair& columns) {
  const auto rows = open_rows(file, table_format_of(file).value_or(TableFormat::jsonl), true,
                              {{columns.good}, {columns.bad}});
  std::vector<MinimalPair> pairs;
  while (const auto row = rows->next()) {
    for (const std::size_t cell : {std::size_t{0}, std::size_t{1}})
      require_input(row->cells[cell].has_value() && !is_blank(*row->cells[cell]),
                    "{}: has no {}; a pair has two sentences", row->place(printable_path(file)),
                    printable(cell == 0 ? columns.good : columns.bad, 80));
    pairs.push_back({*row->cells[0], *row->cells[1], row->place(printable_path(file))});
  }
  require_input(!pairs.empty(), "{}: has no pairs", printable_path(file));
  return pairs;
}

EncodedPairs encode_pairs(const Tokenizer& tokenizer, std::span<const MinimalPair> pairs,
                          std::optional<std::int64_t> longest) {
  const auto is_scored = scored_by(tokenizer);
  EncodedPairs encoded;
  for (const MinimalPair& pair : pairs) {
    const std::int64_t unknown_before = encoded.unknown;
    for (const std::string& sentence : {pair.good, pair.bad}) {
      const Ids ids = tokenizer.wrap(tokenizer.encode(sentence)).ids;
      require_input(std::ranges::any_of(ids, is_scored),
                    "{}: the tokenizer makes no token of \"{}\"; a pair has two sentences",
                    pair.place, printable(sentence, 60));
      require_input(!longest || std::ssize(ids) <= *longest,
                    "{}: a sentence has {} tokens, the model takes at most {}: \"{}\"", pair.place,
                    ids.size(), longest.value_or(0), printable(sentence, 60));
      encoded.tokens += std::ranges::count_if(ids, is_scored);
      encoded.unknown += std::ranges::count(ids, tokenizer.special().unk);
      encoded.sentences.push_back(ids);
    }
    encoded.pairs_with_unknown += encoded.unknown > unknown_before;
  }
  return encoded;
}

std::vector<double> pseudo_log_likelihoods(const Model& model, const Tokenizer& tokenizer,
                                           std::span<const Ids> ids, std::int64_t batch_size) {
  const auto is_scored = scored_by(tokenizer);
  std::vector<MaskedToken> masked;
  std::vector<Ids> rows;
  for (std::size_t sentence = 0; sentence < ids.size(); ++sentence) {
    for (std::size_t place = 0; place < ids[sentence].size(); ++place) {
      const std::int32_t token = ids[sentence][place];
      if (!is_scored(token)) continue;
      masked.push_back({sentence, static_cast<std::int64_t>(place), token});
      rows.push_back(ids[sentence]);
      rows.back()[place] = tokenizer.special().mask;
    }
  }
  std::vector<double> sums(ids.size(), 0);
  const auto add = [&](const std::vector<std::size_t>& batch, const ModelInput& input) {
    check_interruption();
    std::vector<std::int64_t> places;
    for (std::size_t row = 0; row < batch.size(); ++row)
      places.push_back(input.offsets[row] + masked[batch[row]].place);
    const Tensor logits = model.masked_lm_logits(input, places).value().to(cpu_device);
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const auto at = static_cast<std::int64_t>(row);
      const MaskedToken& each = masked[batch[row]];
      sums[each.sentence] += log_probability(logits.slice(0, at, at + 1), each.token);
    }
  };
  for_each_batch({rows.begin(), rows.end()}, batch_size, add);
  return sums;
}

PairCounts count_pairs(const Model& model, const Tokenizer& tokenizer,
                       std::span<const Ids> sentences, std::int64_t batch_size) {
  constexpr std::size_t sentences_at_once = 128;  // bounds the rows in memory
  const auto likelihoods = model.config().head == Head::replaced_tokens ? original_log_likelihoods
                                                                        : pseudo_log_likelihoods;
  PairCounts counts;
  for (std::size_t begin = 0; begin < sentences.size(); begin += sentences_at_once) {
    const auto some =
        sentences.subspan(begin, std::min(sentences_at_once, sentences.size() - begin));
    const std::vector<double> sums = likelihoods(model, tokenizer, some, batch_size);
    require_finite(sums);
    for (std::size_t i = 0; i < sums.size(); i += 2) {
      const bool tie = some[i] == some[i + 1] || is_tie(sums[i], sums[i + 1]);
      counts.ties += tie;
      counts.preferred += !tie && sums[i] > sums[i + 1];
    }
  }
  return counts;
}

}  // namespace nystrom
