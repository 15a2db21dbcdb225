// Batches whose rows are some positions only: dense layers then compute no others.
#pragma once

#include <vector>

#include "nn/layers.h"
#include "nn/sequence_mask.h"

namespace nystrom {

/// Some positions of a batch [b, n], one row each. By default all positions, in their places.
class TokenRows {
 public:
  TokenRows() = default;
  /// The read_positions of `mask`, one behind the other, where all others are more than an eighth
  /// of the batch; else all positions. `sample_ids` [b] i64 on the CPU is undefined without
  /// dropout.
  static TokenRows of_tokens(const SequenceMask& mask, const Tensor& sample_ids, Device device);
  /// `positions` of the flattened [b · n], out of batches with the rows of this one.
  TokenRows chosen(const std::vector<std::int64_t>& positions, const SequenceMask& mask,
                   const Tensor& sample_ids, Device device) const;

  /// Whether these are all positions, in their places.
  bool all() const { return !index_.defined(); }
  /// These rows of x, which is [b, n, c] or has the rows of the TokenRows that chose them: [r, c],
  /// or x itself for all positions.
  Var rows_of(const Var& x) const;
  /// The inverse for of_tokens: [r, c] → [b, n, c], with zeros at padding.
  Var in_places(const Var& x, const SequenceMask& mask) const;
  /// The context for modules that see these rows: their dropout is that of all positions.
  RunContext of(const RunContext& run) const;

 private:
  TokenRows(const std::vector<std::int64_t>& positions, const SequenceMask& mask,
            const Tensor& sample_ids, Device device);

  Tensor index_;   // [r] i64; undefined: all rows
  Tensor row_of_;  // [b · n] i64 on the CPU: each position's row, or −1; undefined: the position
  Tensor places_;  // row_of_ on the device
  Tensor sample_ids_;  // [r, 2] i64: SampleRows
};

}  // namespace nystrom
