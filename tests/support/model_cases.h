// Two-layer models with every option, a line each, and a loss of all that they compute.
#pragma once

#include <string>
#include <vector>

#include "tests/support/models.h"
#include "tests/support/named.h"

namespace nystrom::testing {

/// Both rows have holes, and more tokens than landmarks.
inline const std::vector<std::string> holes = {"110111101", "101011010"};

enum class Mode { plain, checkpointed, dropout };

struct ModelCase : Named {
  void (*change)(ModelConfig&);
  std::vector<std::string> rows = holes;
  Mode mode = Mode::plain;
  double tolerance = 1e-6;  ///< of numerical gradients

  ModelConfig config() const;
  RunContext run() const;
};

std::vector<ModelCase> model_cases();

/// A loss of all specified outputs. Outputs at padded positions are excluded.
Var loss_of(const Model& model, const Layout& layout, const ModelInput& input,
            const RunContext& run);

}  // namespace nystrom::testing
