// The positions of a padded batch that are tokens.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace nystrom {

/// The attention mask of a batch [b, n], and the lengths that follow from it.
class SequenceMask {
 public:
  /// A mask in which every position is a token.
  SequenceMask(std::int64_t batch, std::int64_t length);
  /// `mask` is [b, n] u8 on the CPU: 0 at padding, which may be anywhere in the row.
  explicit SequenceMask(const Tensor& mask, Device device = cpu_device);

  /// The number of rows.
  std::int64_t batch() const { return batch_; }
  /// The number of positions of a row.
  std::int64_t length() const { return length_; }
  /// The mask [b, n] u8 on the device; undefined when every position is a token.
  const Tensor& valid() const { return valid_; }
  /// The number of tokens of each row.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// The indices in the flattened [b · n] of all tokens, and of the first position of each row,
  /// which heads read even where it is padding.
  std::vector<std::int64_t> read_positions() const;
  /// The position of each row's last token, −1 for an empty row.
  std::vector<std::int64_t> last_positions() const;
  /// The mask of the rows in `index`, in that order.
  SequenceMask rows(const std::vector<std::int64_t>& index) const;

 private:
  std::int64_t batch_, length_;
  Device device_;
  Tensor host_, valid_;
  std::vector<std::int64_t> counts_;
};

}  // namespace nystrom
