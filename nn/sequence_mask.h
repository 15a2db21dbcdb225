// Which positions of a padded batch are tokens.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace nystrom {

/// The attention mask of a batch [b, n], with what follows from it: lengths, and who is short.
class SequenceMask {
 public:
  /// Every position is a token.
  SequenceMask(std::int64_t batch, std::int64_t length);
  /// mask [b, n] u8 on the CPU: 0 where padded, anywhere in the row.
  explicit SequenceMask(const Tensor& mask, Device device = cpu_device);

  std::int64_t batch() const { return batch_; }
  std::int64_t length() const { return length_; }
  /// [b, n] u8 on the device; undefined when every position is a token.
  const Tensor& valid() const { return valid_; }
  /// Number of tokens of each row.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// Position of the last token of each row, −1 for an empty one.
  std::vector<std::int64_t> last_positions() const;
  /// The rows named by `index`.
  SequenceMask rows(const std::vector<std::int64_t>& index) const;

 private:
  std::int64_t batch_, length_;
  Device device_;
  Tensor host_, valid_;
  std::vector<std::int64_t> counts_;
};

}  // namespace nystrom
