#include "nn/token_rows.h"

namespace nystrom {
namespace {

Tensor row_tensor(const std::vector<std::int64_t>& numbers) {
  return Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())});
}

}  // namespace

TokenRows::TokenRows(const std::vector<std::int64_t>& positions, const SequenceMask& mask,
                     const Tensor& sample_ids, Device device)
    : index_(row_tensor(positions).to(device)) {
  if (!sample_ids.defined()) return;
  std::vector<std::int64_t> pairs;
  for (const std::int64_t position : positions) {
    pairs.push_back(sample_ids.data<std::int64_t>()[position / mask.length()]);
    pairs.push_back(position % mask.length());
  }
  sample_ids_ = Tensor::from(pairs, {std::ssize(positions), 2}).to(device);
}

TokenRows TokenRows::of_tokens(const SequenceMask& mask, const Tensor& sample_ids, Device device) {
  const std::vector<std::int64_t> tokens = mask.read_positions();
  const std::int64_t positions = mask.batch() * mask.length();
  // Less padding costs less than the copies into places and back.
  if (std::ssize(tokens) * 8 >= positions * 7) return {};
  TokenRows result(tokens, mask, sample_ids, device);
  result.row_of_ = Tensor::full({positions}, -1, DType::i64);
  for (std::size_t row = 0; row < tokens.size(); ++row)
    result.row_of_.data<std::int64_t>()[tokens[row]] = static_cast<std::int64_t>(row);
  result.places_ = result.row_of_.to(device);
  return result;
}

TokenRows TokenRows::chosen(const std::vector<std::int64_t>& positions, const SequenceMask& mask,
                            const Tensor& sample_ids, Device device) const {
  TokenRows result(positions, mask, sample_ids, device);
  if (!row_of_.defined()) return result;
  std::vector<std::int64_t> rows;
  for (const std::int64_t position : positions)
    rows.push_back(row_of_.data<std::int64_t>()[position]);
  result.index_ = row_tensor(rows).to(device);
  return result;
}

Var TokenRows::rows_of(const Var& x) const {
  if (all()) return x;
  return gather_rows(x.rank() == 2 ? x : reshape(x, {x.dim(0) * x.dim(1), x.dim(2)}), index_);
}

Var TokenRows::in_places(const Var& x, const SequenceMask& mask) const {
  if (!row_of_.defined()) return x;
  return reshape(gather_rows(x, places_), {mask.batch(), mask.length(), x.dim(1)});
}

RunContext TokenRows::of(const RunContext& run) const {
  RunContext result = run;
  if (!all()) result.sample_ids = sample_ids_;
  return result;
}

}  // namespace nystrom
