#include "nn/pooling.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/check.h"

namespace nystrom {
namespace {

/// One number for each sequence of a batch, [b, 1], in the accumulate type of `hidden`.
Var row_factors(const Ragged& batch, const Var& hidden,
                const std::function<double(std::int64_t count)>& factor) {
  std::vector<double> factors;
  for (const std::int64_t count : batch.counts())
    factors.push_back(factor(std::max<std::int64_t>(count, 1)));
  return Tensor::from(factors, {std::ssize(factors), 1})
      .cast(accumulate_dtype(hidden.dtype()))
      .to(hidden.value().device());
}

/// The largest number of each column over the tokens of each sequence. Zeros for one without
/// tokens.
Var largest_of_tokens(const Var& hidden, const Ragged& batch) {
  const std::int64_t width = hidden.dim(-1);
  const std::vector<double> values = hidden.value().to_doubles();
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    const std::vector<std::int64_t> rows = batch.token_rows(i);
    for (std::int64_t column = 0; column < width; ++column) {
      std::int64_t best = -1;
      for (const std::int64_t row : rows) {
        const std::int64_t at = row * width + column;
        if (best < 0 ||
            values[static_cast<std::size_t>(at)] > values[static_cast<std::size_t>(best)])
          best = at;
      }
      chosen.push_back(best);
    }
  }
  const Var numbers = gather_rows(reshape(hidden, {hidden.value().numel(), 1}),
                                  Tensor::from(chosen, {std::ssize(chosen)}));
  return cast(reshape(numbers, {batch.batch(), width}), accumulate_dtype(hidden.dtype()));
}

/// The means of the tokens in `segments` segments of each sequence, [b, segments, c], in the
/// accumulate type.
Var token_means(const Var& hidden, const Ragged& batch, std::int64_t segments) {
  if (!batch.key_mask().defined()) return segment_means(hidden, batch.all().keys, segments);
  const auto& [rows, ranges] = rows_of_tokens(hidden, batch);
  return segment_means(rows, RowSpans(ranges, hidden.value().device()), segments);
}

/// Σ place · x / Σ place over the tokens of each sequence, as the mean of weighted tokens: a
/// product with all rows would round otherwise in another batch. Places count from 1 at its first
/// token.
Var place_weighted_mean(const Var& hidden, const Ragged& batch) {
  const std::int64_t rows = hidden.value().numel() / hidden.dim(-1);
  std::vector<double> weights(static_cast<std::size_t>(rows), 0);
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    const std::vector<std::int64_t> places = batch.places(i), own = batch.token_rows(i);
    double total = 0;
    for (const std::int64_t place : places) total += static_cast<double>(place - places[0] + 1);
    for (std::size_t t = 0; t < own.size(); ++t)
      weights[static_cast<std::size_t>(own[t])] =
          static_cast<double>(places[t] - places[0] + 1) * static_cast<double>(own.size()) / total;
  }
  const DType dtype = accumulate_dtype(hidden.dtype());
  const Var factors = Tensor::from(weights, {rows, 1}).cast(dtype).to(hidden.value().device());
  const Var weighted = reshape(cast(flat_rows(hidden), dtype) * factors, hidden.value().shape());
  return mean(token_means(weighted, batch, 1), 1);
}

}  // namespace

std::vector<std::int64_t> first_rows(const Ragged& batch) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    const std::int64_t first = batch.rows(i).begin;  // a token may be in front of this padding
    rows.push_back(batch.place_of(first).position == 0 ? first : batch.tokens(i).begin);
  }
  return rows;
}

std::vector<std::int64_t> last_tokens(const Ragged& batch) {
  std::vector<std::int64_t> rows = first_rows(batch);
  for (std::int64_t i = 0; i < batch.batch(); ++i)
    if (batch.counts()[static_cast<std::size_t>(i)] > 0)
      rows[static_cast<std::size_t>(i)] = batch.token_rows(i).back();
  return rows;
}

std::vector<std::int64_t> behind_class_tokens(const Ragged& batch) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < batch.batch(); ++i)
    for (std::int64_t row = batch.rows(i).begin + 1; row < batch.rows(i).end; ++row)
      rows.push_back(row);
  return rows;
}

Var rows_at(const Var& hidden, const std::vector<std::int64_t>& rows) {
  return gather_rows(flat_rows(hidden), index_of(rows));
}

ChosenRows read_by(SentencePooling pooling, const Ragged& batch) {
  if (pooling == SentencePooling::cls) return first_rows(batch);
  if (pooling == SentencePooling::lasttoken) return last_tokens(batch);
  return {};
}

std::pair<Var, std::vector<RowRange>> rows_of_tokens(const Var& hidden, const Ragged& batch) {
  std::vector<std::int64_t> rows;
  std::vector<RowRange> ranges;
  const bool chosen = batch.key_mask().defined();  // padding has rows among them
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    const auto begin = std::ssize(rows);
    if (chosen) std::ranges::copy(batch.token_rows(i), std::back_inserter(rows));
    ranges.push_back(chosen ? RowRange{begin, std::ssize(rows)} : batch.tokens(i));
  }
  return {chosen ? rows_at(hidden, rows) : flat_rows(hidden), ranges};
}

Var mean_token(const Var& hidden, const Ragged& batch) {
  return reshape(cast(token_means(hidden, batch, 1), hidden.dtype()),
                 {batch.batch(), hidden.dim(-1)});
}

Var pool(const Var& hidden, const Ragged& batch, SentencePooling pooling, std::int64_t landmarks) {
  const auto means = [&](std::int64_t segments) { return token_means(hidden, batch, segments); };
  switch (pooling) {
    case SentencePooling::cls:
    case SentencePooling::lasttoken: return cast(hidden, accumulate_dtype(hidden.dtype()));
    case SentencePooling::mean: return mean(means(1), 1);
    case SentencePooling::landmarks: {
      // Segments without tokens are zeros and do not count.
      return sum(means(landmarks), 1) * row_factors(batch, hidden, [&](std::int64_t count) {
               return 1.0 / static_cast<double>(std::min(count, landmarks));
             });
    }
    case SentencePooling::max: return largest_of_tokens(hidden, batch);
    case SentencePooling::mean_sqrt_len_tokens:
      return mean(means(1), 1) * row_factors(batch, hidden, [](std::int64_t count) {
               return std::sqrt(static_cast<double>(count));
             });
    case SentencePooling::weightedmean: return place_weighted_mean(hidden, batch);
  }
  return {};
}

}  // namespace nystrom
