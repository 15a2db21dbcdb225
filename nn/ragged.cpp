#include "nn/ragged.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace nystrom {
namespace {

Tensor index_tensor(const std::vector<std::int64_t>& rows) {
  return Tensor::from(rows, {std::ssize(rows)});
}

/// One for each position of a token: [b, n], where n is the most tokens, or `length` if it is more.
Tensor mask_of(const std::vector<std::int64_t>& offsets, std::int64_t length) {
  for (std::size_t i = 1; i < offsets.size(); ++i)
    length = std::max(length, offsets[i] - offsets[i - 1]);
  length = std::max<std::int64_t>(length, 1);
  std::vector<std::uint8_t> mask;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    mask.resize(mask.size() + static_cast<std::size_t>(offsets[i] - offsets[i - 1]), 1);
    mask.resize(i * static_cast<std::size_t>(length), 0);
  }
  return Tensor::from(mask, {std::ssize(offsets) - 1, length});
}

/// x [b, n, …] as [b · n, …].
Var flattened(const Var& x) {
  Shape shape = x.shape().without(0);
  shape[0] = x.dim(0) * x.dim(1);
  return reshape(x, shape);
}

}  // namespace

Var flat_rows(const Var& x) { return reshape(x, {x.shape().without(-1).numel(), x.dim(-1)}); }

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
  input_in_order_ = padding == Padding::kept;
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

Ragged::Ragged(const std::vector<std::int64_t>& offsets, Device device, Padding padding,
               std::int64_t length)
    : Ragged(mask_of(offsets, padding == Padding::kept ? length : 0), device, padding) {
  input_is_rows_ = true;
  for (std::int64_t i = 0; i < batch(); ++i)
    for (std::int64_t t = 0; t < counts_[static_cast<std::size_t>(i)]; ++t)
      input_positions_.push_back(i * length_ + t);
  input_in_order_ = dense() ? mask_.empty() : input_positions_ == positions_;
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
    queries[many].push_back(attending_.empty() ? rows(b) : attending_[static_cast<std::size_t>(b)]);
    keys[many].push_back(this->tokens(b));
  }
  const auto spans = [&](bool many) -> std::optional<SequenceSpans> {
    if (queries[many].empty()) return {};
    if (queries[!many].empty()) return all_;
    const RowSpans rows(queries[many], device_);
    const bool same = without_gaps_ && attending_.empty();
    return SequenceSpans{rows, same ? rows : RowSpans(keys[many], device_)};
  };
  return splits_->emplace(tokens, Split{spans(false), spans(true)}).first->second;
}

Ragged Ragged::attending_at(const std::vector<std::int64_t>& positions) const {
  Ragged result = *this;
  result.splits_ = std::make_shared<std::map<std::int64_t, Split>>();
  result.attending_.clear();
  for (std::int64_t b = 0, end = 0; b < batch(); ++b) {
    const std::int64_t begin = end;
    while (end < std::ssize(positions) &&
           positions[static_cast<std::size_t>(end)] < (b + 1) * length_)
      ++end;
    result.attending_.push_back({begin, end});
  }
  result.all_.queries = RowSpans(result.attending_, device_);
  return result;
}

std::vector<std::int64_t> Ragged::positions_of(std::vector<std::int64_t> elements) const {
  if (input_is_rows())
    for (std::int64_t& element : elements)
      element = input_positions_[static_cast<std::size_t>(element)];
  return elements;
}

std::vector<std::int64_t> Ragged::elements() const {
  std::vector<std::int64_t> positions = positions_;
  if (dense()) {
    positions.resize(counts_.size() * static_cast<std::size_t>(length_));
    std::iota(positions.begin(), positions.end(), 0);
  }
  if (!input_is_rows()) return positions;
  std::vector<std::int64_t> element_at(counts_.size() * static_cast<std::size_t>(length_), -1);
  for (std::size_t i = 0; i < input_positions_.size(); ++i)
    element_at[static_cast<std::size_t>(input_positions_[i])] = static_cast<std::int64_t>(i);
  for (std::int64_t& position : positions)
    position = element_at[static_cast<std::size_t>(position)];
  return positions;
}

Tensor Ragged::rows_of(const Tensor& numbers, std::int64_t padding) const {
  const Tensor host = numbers.to(cpu_device).contiguous();
  const Shape of_rows{batch(), length_};
  if (input_in_order_) return dense() ? host.reshape(of_rows) : host;
  const auto* number = host.data<std::int64_t>();
  std::vector<std::int64_t> rows = elements();
  for (std::int64_t& row : rows) row = row < 0 ? padding : number[row];
  return Tensor::from(rows, dense() ? of_rows : Shape{std::ssize(rows)});
}

Var Ragged::rows_of(const Var& x) const { return dense() ? x : gather_rows(flattened(x), index_); }

Tensor Ragged::token_features(const Tensor& x, DType type) const {
  const Shape of_rows{batch(), length_, x.dim(-1)};
  if (mask_.empty() || (input_is_rows() && input_in_order_))
    return dense() ? x.contiguous().reshape(of_rows) : x;
  std::vector<std::int64_t> rows = elements();
  if (!input_is_rows())
    for (std::int64_t& position : rows)
      if (mask_[static_cast<std::size_t>(position)] == 0) position = -1;
  const Tensor features = gather_rows(flat_rows(x.cast(type)), index_tensor(rows)).value();
  return dense() ? features.reshape(of_rows) : features;
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

Var Ragged::as_input(const Var& x) const {
  if (!input_is_rows()) return in_places(x);
  const Var rows = dense() ? flattened(x) : x;
  return input_in_order_ ? rows : gather_rows(rows, rows_at(input_positions_));
}

Tensor Ragged::rows_at(const std::vector<std::int64_t>& positions) const {
  std::vector<std::int64_t> rows = positions;
  if (!dense())
    for (std::int64_t& row : rows) row = row_of_[static_cast<std::size_t>(row)];
  return index_tensor(rows).to(device_);
}

RunContext Ragged::of(const RunContext& run) const { return dense() ? run : of(run, positions_); }

RunContext Ragged::of(const RunContext& run, const std::vector<std::int64_t>& positions) const {
  RunContext result = run;
  if (!run.training || !run.sample_ids.defined()) return result;
  const Tensor samples = run.sample_ids.to(cpu_device).contiguous();
  require(samples.shape() == Shape{batch()}, "sample ids are {}, expected [{}]", samples.shape(),
          batch());
  std::vector<std::int64_t> pairs;
  for (const std::int64_t position : positions) {
    pairs.push_back(samples.data<std::int64_t>()[position / length_]);
    pairs.push_back(position % length_);
  }
  result.sample_ids = Tensor::from(pairs, {std::ssize(positions), 2}).to(device_);
  return result;
}

}  // namespace nystrom
