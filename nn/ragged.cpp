#include "nn/ragged.h"

#include <algorithm>
#include <numeric>

#include "core/batch.h"
#include "core/check.h"

namespace nystrom {
namespace {

std::vector<std::int64_t> numbers_of(const RowRange& range) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(range.size()));
  std::iota(rows.begin(), rows.end(), range.begin);
  return rows;
}

/// The index in `rows` of each number below `count`, −1 for none.
std::vector<std::int64_t> inverse_of(const std::vector<std::int64_t>& rows, std::int64_t count) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count), -1);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0) result[static_cast<std::size_t>(rows[i])] = static_cast<std::int64_t>(i);
  return result;
}

/// x [b, n, …] as [b · n, …].
Var flattened(const Var& x) {
  Shape shape = x.shape().without(0);
  shape[0] = x.dim(0) * x.dim(1);
  return reshape(x, shape);
}

}  // namespace

Var flat_rows(const Var& x) { return reshape(x, {x.shape().without(-1).numel(), x.dim(-1)}); }

Tensor index_of(const std::vector<std::int64_t>& rows) {
  return Tensor::from(rows, {std::ssize(rows)});
}

Ragged::Ragged(std::int64_t batch, std::int64_t length)
    : length_(length), counts_(static_cast<std::size_t>(batch), length) {
  for (std::int64_t i = 0; i <= batch; ++i) offsets_.push_back(i * length);
}

Ragged::Ragged(const Tensor& mask, Device device, Padding padding)
    : Ragged(mask.dim(0), mask.dim(1)) {
  require(mask.rank() == 2 && mask.dtype() == DType::u8,
          "an attention mask must be u8 [b, n], got {} {}", mask.dtype(), mask.shape());
  device_ = device;
  const Tensor host = mask.contiguous();
  const auto* token = host.data<std::uint8_t>();
  for (std::size_t i = 0; i < counts_.size(); ++i)
    counts_[i] -= std::count(token + offsets_[i], token + offsets_[i + 1], 0);
  if (std::ranges::count(counts_, length_) == batch()) return;
  if (padding == Padding::kept) {
    tokens_ = host;
    key_mask_ = host.to(device);
    return;
  }
  dense_ = in_order_ = false;
  for (std::size_t i = 0; i < counts_.size(); ++i, token += length_) {
    const std::size_t first = places_.size();
    for (const bool of_tokens : {false, true})
      for (std::int64_t t = 0; t < length_; ++t)
        if ((token[t] != 0) == of_tokens && (of_tokens || t == 0 || padding == Padding::attends))
          places_.push_back(t);
    offsets_[i + 1] = std::ssize(places_);
    without_gaps_ = without_gaps_ && offsets_[i + 1] - offsets_[i] == counts_[i] &&
                    places_.back() - places_[first] + 1 == counts_[i];
  }
  make_spans();
}

Ragged::Ragged(const std::vector<std::int64_t>& offsets, Device device,
               std::optional<std::int64_t> padded_length)
    : device_(device), length_(padded_length.value_or(1)), padded_input_(false), offsets_(offsets) {
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    counts_.push_back(offsets[i] - offsets[i - 1]);
    length_ = std::max(length_, counts_.back());
  }
  dense_ = padded_length || std::ranges::count(counts_, length_) == batch();
  for (std::size_t i = 0; i < counts_.size(); ++i)
    offsets_[i + 1] = offsets_[i] + (dense_ ? length_ : std::max<std::int64_t>(counts_[i], 1));
  in_order_ = offsets_ == offsets;
  without_gaps_ = dense_ || in_order_;
  if (!dense_) make_spans();
  if (!dense_ || in_order_) return;
  tokens_ = Tensor::zeros({batch(), length_}, DType::u8);
  for (std::size_t i = 0; i < counts_.size(); ++i)
    std::fill_n(tokens_.data<std::uint8_t>() + offsets_[i], counts_[i], 1);
  key_mask_ = tokens_.to(device);
}

void Ragged::make_spans() {
  std::vector<RowRange> keys;
  for (std::int64_t i = 0; i < batch(); ++i) {
    queries_.push_back(rows(i));
    keys.push_back(tokens(i));
  }
  all_.queries = all_.keys = RowSpans(queries_, device_);
  if (!without_gaps_) all_.keys = RowSpans(keys, device_);
}

RowRange Ragged::rows(std::int64_t i) const {
  const auto sequence = static_cast<std::size_t>(i);
  return {offsets_[sequence], offsets_[sequence + 1]};
}

RowRange Ragged::tokens(std::int64_t i) const {
  const std::int64_t end = rows(i).end;
  return {end - counts_[static_cast<std::size_t>(i)], end};
}

std::vector<std::int64_t> Ragged::token_rows(std::int64_t i) const {
  if (!tokens_.defined()) return numbers_of(tokens(i));
  std::vector<std::int64_t> kept = numbers_of(rows(i));
  std::erase_if(kept, [&](std::int64_t row) { return tokens_.data<std::uint8_t>()[row] == 0; });
  return kept;
}

std::int64_t Ragged::position_of(std::int64_t i, std::int64_t row) const {
  return places_.empty() ? row - rows(i).begin : places_[static_cast<std::size_t>(row)];
}

std::vector<std::int64_t> Ragged::places(std::int64_t i) const {
  std::vector<std::int64_t> result = token_rows(i);
  for (std::int64_t& row : result) row = position_of(i, row);
  return result;
}

Ragged::Place Ragged::place_of(std::int64_t row) const {
  const std::int64_t i = std::ranges::upper_bound(offsets_, row) - offsets_.begin() - 1;
  return {i, position_of(i, row)};
}

const Ragged::Split& Ragged::split(std::int64_t tokens) const {
  const auto found = splits_->find(tokens);
  if (found != splits_->end()) return found->second;
  Split parts;
  if (dense()) {
    (length_ > tokens ? parts.many : parts.few) = all_;
    return splits_->emplace(tokens, parts).first->second;
  }
  std::vector<RowRange> queries[2], keys[2];
  for (std::int64_t i = 0; i < batch(); ++i) {
    const bool many = this->tokens(i).size() > tokens;
    queries[many].push_back(queries_[static_cast<std::size_t>(i)]);
    keys[many].push_back(this->tokens(i));
  }
  for (const bool many : {false, true})
    if (!queries[many].empty())
      (many ? parts.many : parts.few) =
          queries[!many].empty()
              ? all_
              : SequenceSpans{RowSpans(queries[many], device_), RowSpans(keys[many], device_)};
  return splits_->emplace(tokens, parts).first->second;
}

Ragged Ragged::attending_at(const std::vector<std::int64_t>& rows) const {
  Ragged result = *this;
  result.splits_ = std::make_shared<std::map<std::int64_t, Split>>();
  result.queries_.clear();
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < batch(); ++i) {
    const std::int64_t end = std::ranges::lower_bound(rows, this->rows(i).end) - rows.begin();
    result.queries_.push_back({begin, end});
    begin = end;
  }
  result.all_.queries = RowSpans(result.queries_, device_);
  return result;
}

std::vector<std::int64_t> Ragged::rows_by_position(bool tokens_alone) const {
  std::vector<std::int64_t> result(counts_.size() * static_cast<std::size_t>(length_), -1);
  for (std::int64_t i = 0; i < batch(); ++i)
    for (const std::int64_t row : tokens_alone ? token_rows(i) : numbers_of(rows(i)))
      result[static_cast<std::size_t>(i * length_ + position_of(i, row))] = row;
  return result;
}

std::vector<std::int64_t> Ragged::rows_by_element(bool tokens_alone) const {
  if (padded_input_) return rows_by_position(tokens_alone);
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < batch(); ++i)
    std::ranges::copy(token_rows(i), std::back_inserter(result));
  return result;
}

std::vector<std::int64_t> Ragged::rows_of(std::vector<std::int64_t> elements) const {
  if (in_order_) return elements;
  const std::vector<std::int64_t> rows = rows_by_element(false);
  for (std::int64_t& element : elements) {
    element = rows[static_cast<std::size_t>(element)];
    require(element >= 0, "an element of padding has no row: labels and masks are of tokens");
  }
  return elements;
}

Tensor Ragged::rows_of(const Tensor& numbers, std::int64_t padding) const {
  const Tensor host = numbers.to(cpu_device).contiguous();
  const Shape of_rows = dense() ? Shape{batch(), length_} : Shape{offsets_.back()};
  if (in_order_) return host.reshape(of_rows);
  std::vector<std::int64_t> rows = inverse_of(rows_by_element(false), offsets_.back());
  for (std::int64_t& row : rows) row = row < 0 ? padding : host.data<std::int64_t>()[row];
  return Tensor::from(rows, of_rows);
}

Var Ragged::rows_of(const Var& x) const {
  if (dense()) return x;
  return gather_rows(flattened(x), index_of(inverse_of(rows_by_position(false), offsets_.back())));
}

Tensor Ragged::token_features(const Tensor& x, DType type) const {
  const Shape of_rows{batch(), length_, x.dim(-1)};
  if (in_order_ && !tokens_.defined()) return dense() ? x.contiguous().reshape(of_rows) : x;
  const Tensor elements = index_of(inverse_of(rows_by_element(true), offsets_.back()));
  const Tensor features = gather_rows(flat_rows(x.cast(type)), elements).value();
  return dense() ? features.reshape(of_rows) : features;
}

Var Ragged::in_places(const Var& x, bool tokens_alone) const {
  if (dense()) return x;
  Shape shape = x.shape().with(0, batch());
  shape[1] = length_;
  return reshape(gather_rows(x, index_of(rows_by_position(tokens_alone))), shape);
}

Var Ragged::as_input(const Var& x) const {
  if (padded_input_) return in_places(x);
  const Var rows = dense() ? flattened(x) : x;
  return in_order_ ? rows : gather_rows(rows, index_of(rows_by_element(false)));
}

RunContext Ragged::of(const RunContext& run, const ChosenRows& chosen) const {
  if (!run.training || !run.sample_ids.defined() || (dense() && !chosen)) return run;
  const Tensor samples = run.sample_ids.to(cpu_device).contiguous();
  require(samples.shape() == Shape{batch()}, "sample ids are {}, expected [{}]", samples.shape(),
          batch());
  std::vector<std::int64_t> pairs;
  for (const std::int64_t row : chosen ? *chosen : numbers_of({0, offsets_.back()})) {
    const Place place = place_of(row);
    pairs.push_back(samples.data<std::int64_t>()[place.sequence]);
    pairs.push_back(place.position);
  }
  RunContext result = run;
  result.sample_ids = Tensor::from(pairs, {std::ssize(pairs) / 2, 2}).to(device_);
  return result;
}

}  // namespace nystrom
