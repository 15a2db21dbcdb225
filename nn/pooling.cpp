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

/// The rows of a sequence that are tokens, in the flattened rows of the batch. Padding that is kept
/// is no token.
std::vector<std::int64_t> token_rows(const Ragged& batch, std::int64_t sequence) {
  std::vector<std::int64_t> rows = batch.places(sequence);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = batch.dense() ? rows[i] + sequence * batch.length()
                            : batch.tokens(sequence).begin + static_cast<std::int64_t>(i);
  return rows;
}

/// The largest number of each column over the tokens of each sequence. Zeros for one without
/// tokens.
Var largest_of_tokens(const Var& hidden, const Ragged& batch) {
  const std::int64_t width = hidden.dim(-1);
  const std::vector<double> values = hidden.value().to_doubles();
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    const std::vector<std::int64_t> rows = token_rows(batch, i);
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
    const std::vector<std::int64_t> places = batch.places(i), own = token_rows(batch, i);
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

std::vector<std::int64_t> first_positions(const Ragged& batch) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < batch.batch(); ++i) positions.push_back(i * batch.length());
  return positions;
}

std::vector<std::int64_t> last_tokens(const Ragged& batch) {
  std::vector<std::int64_t> positions = first_positions(batch);
  const std::vector<std::int64_t> last = batch.last_positions();
  for (std::size_t row = 0; row < positions.size(); ++row)
    positions[row] += std::max<std::int64_t>(last[row], 0);
  return positions;
}

std::vector<std::int64_t> behind_class_tokens(const Ragged& batch) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < batch.batch(); ++i)
    for (std::int64_t t = 1; t < batch.counts()[static_cast<std::size_t>(i)]; ++t)
      positions.push_back(i * batch.length() + t);
  return positions;
}

Var rows_at(const Var& hidden, const Ragged& batch, const std::vector<std::int64_t>& positions) {
  return gather_rows(flat_rows(hidden), batch.rows_at(positions));
}

ReadPositions read_by(SentencePooling pooling, const Ragged& batch) {
  if (pooling == SentencePooling::cls) return first_positions(batch);
  if (pooling == SentencePooling::lasttoken) return last_tokens(batch);
  return {};
}

std::pair<Var, std::vector<RowRange>> rows_of_tokens(const Var& hidden, const Ragged& batch) {
  std::vector<std::int64_t> rows;
  std::vector<RowRange> ranges;
  const bool chosen = batch.key_mask().defined();  // padding has rows among them
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    if (!chosen) {
      ranges.push_back(batch.dense() ? RowRange{i * batch.length(), (i + 1) * batch.length()}
                                     : batch.tokens(i));
      continue;
    }
    const std::vector<std::int64_t> own = token_rows(batch, i);
    ranges.push_back({std::ssize(rows), std::ssize(rows) + std::ssize(own)});
    rows.insert(rows.end(), own.begin(), own.end());
  }
  const Var flat = flat_rows(hidden);
  return {chosen ? gather_rows(flat, Tensor::from(rows, {std::ssize(rows)})) : flat, ranges};
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
