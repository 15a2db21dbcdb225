// Single sequences of a text, for studies of a model.
#pragma once

#include <vector>

#include "data/pretraining/loader.h"

namespace nystrom {

/// A masked sample without padding, as a batch of one.
struct MaskedSequence {
  ModelInput input;
  Tensor labels;
  std::int64_t tokens, chosen;  ///< all tokens, and those to predict
};

/// The `count` longest of many samples spread over the text, in the order of the text. Among
/// equally long samples the selection is spread evenly. A short text gives fewer.
std::vector<MaskedSequence> longest_sequences(const MaskedSamples& samples, std::int64_t count);

}  // namespace nystrom
