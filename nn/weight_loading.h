// Weights from a file into a parameter store.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nn/parameter_store.h"

namespace nystrom {

/// Weights on offer: names with shapes, and a way to read one.
struct WeightSource {
  struct Entry {
    std::string name;
    Shape shape;
  };
  std::vector<Entry> entries;
  std::function<Tensor(const std::string& name)> read;
};

/// Strict: all missing, unexpected and mismatched names are reported at once, as one InputError.
/// Copies that older files hold beside the parameters (the tied decoder, position buffers) are
/// passed over, and parameters in `fresh` are not looked for. Needs no allocated store, so that a
/// hostile file costs no memory.
void check_weights(const ParameterStore& store, const WeightSource& source,
                   std::span<const std::string> fresh = {});
/// check_weights, then gives every parameter but those in `fresh` its values.
void load_weights(ParameterStore& store, const WeightSource& source,
                  std::span<const std::string> fresh = {});

}  // namespace nystrom
