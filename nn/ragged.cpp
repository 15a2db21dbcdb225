#include "nn/ragged.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace nystrom {
namespace {

Tensor index_tensor(const std::vector<std::int64_t>& rows) {
  return Tensor::from(rows, {std::ssize(rows)});
}

/// x [b, n, …] as [b · n, …].
Var flattened(const Var& x) {
  Shape shape = x.shape().without(0);
  shape[0] = x.dim(0) * x.dim(1);
  return reshape(x, shape);
}

}  // namespace

Ragged::Ragged(std::int64_t batch, std::int64_t length)
    : length_(length), counts_(static_cast<std::size_t>(batch), length) {}

Ragged::Ragged(const Tensor& mask, Device device, Padding padding)
    : device_(device), length_(mask.dim(1)) {
  require(mask.rank() == 2 && mask.dtype() == DType::u8,
          "an attention mask must be u8 [b, n], got {} {}", mask.dtype(), mask.shape());
  const Tensor host = mask.contiguous();
  const auto* token = host.data<std::uint8_t>();
  for (std::int64_t b = 0; b < mask.dim(0); ++b)
    counts_.push_back(std::count_if(token + b * length_, token + (b + 1) * length_,
                                    [](std::uint8_t v) { return v != 0; }));
  if (std::ranges::all_of(counts_, [&](std::int64_t count) { return count == length_; })) return;
  mask_.assign(token, token + mask.numel());
  if (padding == Padding::kept) {
    key_mask_ = host.to(device);
    return;
  }
  std::vector<RowRange> queries;
  row_of_.assign(mask_.size(), -1);
  for (std::int64_t b = 0; b < batch(); ++b) {
    const std::int64_t first_row = std::ssize(positions_);
    const auto add_row = [&](std::int64_t t) {
      row_of_[static_cast<std::size_t>(b * length_ + t)] = std::ssize(positions_);
      positions_.push_back(b * length_ + t);
    };
    for (std::int64_t t = 0; t < length_; ++t)
      if (!token[b * length_ + t] && (t == 0 || padding == Padding::attends)) add_row(t);
    const std::vector<std::int64_t> tokens = places(b);
    without_gaps_ = without_gaps_ && std::ssize(positions_) == first_row &&
                    tokens.back() - tokens.front() + 1 == std::ssize(tokens);
    for (const std::int64_t t : tokens) add_row(t);
    const std::int64_t end = std::ssize(positions_);
    queries.push_back({first_row, end});
    tokens_.push_back({end - counts_[static_cast<std::size_t>(b)], end});
  }
  index_ = index_tensor(positions_).to(device);
  places_ = index_tensor(row_of_).to(device);
  all_.queries = all_.keys = RowSpans(queries, device);
  if (!without_gaps_) all_.keys = RowSpans(tokens_, device);
}

RowRange Ragged::rows(std::int64_t i) const {
  return {i == 0 ? 0 : tokens(i - 1).end, tokens(i).end};
}

std::vector<std::int64_t> Ragged::places(std::int64_t i) const {
  std::vector<std::int64_t> result;
  for (std::int64_t t = 0; t < length_; ++t)
    if (mask_.empty() || mask_[static_cast<std::size_t>(i * length_ + t)] != 0) result.push_back(t);
  return result;
}

std::vector<std::int64_t> Ragged::last_positions() const {
  std::vector<std::int64_t> last(counts_.size(), length_ - 1);
  if (mask_.empty()) return last;
  for (std::int64_t b = 0; b < batch(); ++b) {
    auto& position = last[static_cast<std::size_t>(b)];
    while (position >= 0 && mask_[static_cast<std::size_t>(b * length_ + position)] == 0)
      --position;
  }
  return last;
}

const Ragged::Split& Ragged::split(std::int64_t tokens) const {
  const auto found = splits_->find(tokens);
  if (found != splits_->end()) return found->second;
  std::vector<RowRange> queries[2], keys[2];
  if (dense())
    return splits_->emplace(tokens, length_ > tokens ? Split{{}, all_} : Split{all_, {}})
        .first->second;
  for (std::int64_t b = 0; b < batch(); ++b) {
    const bool many = this->tokens(b).size() > tokens;
    queries[many].push_back(rows(b));
    keys[many].push_back(this->tokens(b));
  }
  const auto spans = [&](bool many) -> std::optional<SequenceSpans> {
    if (queries[many].empty()) return {};
    if (queries[!many].empty()) return all_;
    const RowSpans rows(queries[many], device_);
    return SequenceSpans{rows, without_gaps_ ? rows : RowSpans(keys[many], device_)};
  };
  return splits_->emplace(tokens, Split{spans(false), spans(true)}).first->second;
}

Tensor Ragged::rows_of(const Tensor& numbers) const {
  if (dense()) return numbers;
  const Tensor host = numbers.to(cpu_device).contiguous();
  const auto* number = host.data<std::int64_t>();
  std::vector<std::int64_t> rows;
  for (const std::int64_t position : positions_) rows.push_back(number[position]);
  return index_tensor(rows);
}

Var Ragged::rows_of(const Var& x) const { return dense() ? x : gather_rows(flattened(x), index_); }

Var Ragged::token_features(const Var& x) const {
  if (mask_.empty()) return x;
  std::vector<std::int64_t> rows = positions_;
  if (dense()) rows.resize(mask_.size()), std::iota(rows.begin(), rows.end(), 0);
  for (std::int64_t& position : rows)
    if (mask_[static_cast<std::size_t>(position)] == 0) position = -1;
  const Var features = gather_rows(flattened(x), index_tensor(rows));
  return dense() ? reshape(features, x.shape()) : features;
}

Var Ragged::of_positions(const Var& x, const Tensor& rows) const {
  Shape shape = x.shape().with(0, batch());
  shape[1] = length_;
  return reshape(gather_rows(x, rows), shape);
}

Var Ragged::in_places(const Var& x) const { return dense() ? x : of_positions(x, places_); }

Var Ragged::tokens_in_places(const Var& x) const {
  std::vector<std::int64_t> rows = row_of_;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (mask_[i] == 0) rows[i] = -1;
  return of_positions(x, index_tensor(rows));
}

Var Ragged::chosen(const Var& x, const std::vector<std::int64_t>& positions) const {
  if (dense()) return gather_rows(flattened(x), index_tensor(positions));
  std::vector<std::int64_t> rows;
  for (const std::int64_t position : positions)
    rows.push_back(row_of_[static_cast<std::size_t>(position)]);
  return gather_rows(x, index_tensor(rows));
}

RunContext Ragged::of(const RunContext& run) const { return dense() ? run : of(run, positions_); }

RunContext Ragged::of(const RunContext& run, const std::vector<std::int64_t>& positions) const {
  RunContext result = run;
  if (!run.training || !run.sample_ids.defined()) return result;
  const Tensor samples = run.sample_ids.to(cpu_device).contiguous();
  std::vector<std::int64_t> pairs;
  for (const std::int64_t position : positions) {
    pairs.push_back(samples.data<std::int64_t>()[position / length_]);
    pairs.push_back(position % length_);
  }
  result.sample_ids = Tensor::from(pairs, {std::ssize(positions), 2}).to(device_);
  return result;
}

}  // namespace nystrom
