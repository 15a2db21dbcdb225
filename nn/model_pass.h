// The inputs of a model's forward pass, for the files that define its functions.
#pragma once

#include "nn/model.h"

namespace nystrom {

/// The inputs on the parameters' device.
struct Model::Pass {
  ModelInput input;
  RunContext run;
  Ragged batch;
  Pass(const Model& model, ModelInput given, const RunContext& context, Padding padding)
      : input(std::move(given)), run(context), batch(model.batch_of(input, padding)) {
    const Device device = model.store_.values().device();
    // Ids stay on the CPU, where the embedding checks them.
    for (Tensor* tensor : {&input.features, &run.sample_ids}) *tensor = tensor->to(device);
  }
};

}  // namespace nystrom
