// Models whose options are drawn together: what a table with an option a line cannot reach.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/models.h"

namespace nystrom::testing {

/// A configuration that nn/model_config.h permits, with every option drawn. It depends on the seed
/// alone. Sequences of up to 9 tokens fit; weights do not matter.
ModelConfig drawn_model(std::uint64_t seed);

/// Sequences with their tokens in front, padded to 9; their number is even, as pairs need. Without
/// padding where the model takes none, or takes one length.
Layout drawn_layout(const ModelConfig& config);

/// The input of these sequences; without a mask where the model takes none.
ModelInput drawn_input(const ModelConfig& config, const Layout& layout);

/// A training step with dropout on these sequences.
RunContext drawn_run(const Layout& layout, bool checkpoint_activations = false);

/// The options of a configuration, for messages.
std::string description(const ModelConfig& config);

}  // namespace nystrom::testing
