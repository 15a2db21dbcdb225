// Sentence-order prediction: the order of two segments of a text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/pretraining/masking.h"

namespace nystrom {

/// A sample in two segments: cls A sep B sep.
struct Segments {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> types;  ///< 0 up to the first sep, 1 after it
  bool swapped = false;             ///< whether A follows B in the text
};

/// Cuts the text of a sample, cls text sep, at a random position into two segments that are not
/// empty. It exchanges them with probability ½ (Lan et al., ALBERT, arXiv 1909.11942). If the table
/// knows words and a word starts inside, the cut is at the start of a word. `key` determines the
/// draw.
Segments cut_in_segments(std::span<const std::int64_t> sample, const MaskingTable& table,
                         const MaskingKey& key);

}  // namespace nystrom
