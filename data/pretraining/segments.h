// Sentence-order prediction: which of two segments of a text came first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/pretraining/masking.h"

namespace nystrom {

/// A sample in two segments: cls A sep B sep.
struct Segments {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> types;  ///< 0 up to the first sep, 1 behind it
  bool swapped = false;             ///< A came behind B in the text
};

/// Cuts the text of a sample, cls text sep, at a drawn place into two segments that are not empty,
/// and exchanges them half the time (Lan et al., ALBERT, arXiv 1909.11942). The cut is at the start
/// of a word when the table knows words and one starts inside. The key decides.
Segments cut_in_segments(std::span<const std::int64_t> sample, const MaskingTable& table,
                         const MaskingKey& key);

}  // namespace nystrom
