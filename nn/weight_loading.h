// Loading of weights from a file into a parameter store.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/parameter_store.h"

namespace nystrom {

/// The weights of a file: names with shapes, and a function that reads one tensor.
struct WeightSource {
  struct Entry {
    std::string name;
    Shape shape;
  };
  std::vector<Entry> entries;
  std::function<Tensor(const std::string& name)> read;
  /// The file's own name of a tensor, for messages. Empty: the same name.
  std::function<std::string(const std::string& name)> name_in_file = {};

  /// The name of a tensor in messages.
  std::string shown(const std::string& name) const {
    return name_in_file ? name_in_file(name) : name;
  }
};

/// Whether a tensor belongs neither to the encoder nor to the layers of vectors. A file may hold
/// such tensors of other heads or programs: a model that lacks them computes the same.
bool is_outside_encoder(std::string_view name);

/// Throws one InputError that lists all missing, unexpected and mismatched names. Copies that older
/// files hold beside the parameters (the tied decoder, position buffers) are ignored, and so are
/// tensors outside the encoder unless others are missing. Parameters in
/// `fresh` need not exist in the source. The store need not be allocated, so a malicious file costs
/// no memory.
void check_weights(const ParameterStore& store, const WeightSource& source,
                   std::span<const std::string> fresh = {});
/// Calls check_weights, then gives every parameter its values, except those in `fresh`.
void load_weights(ParameterStore& store, const WeightSource& source,
                  std::span<const std::string> fresh = {});

}  // namespace nystrom
