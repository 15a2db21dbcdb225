// Conversion of a model with exact attention into a Nyström encoder.
#pragma once

#include <optional>
#include <string>

#include "train/export/extend.h"

namespace nystrom {

/// The options of a conversion.
struct ConvertOptions {
  std::int64_t landmarks = 64;
  /// Taps of the convolution; nothing: those of the model, else 33.
  std::optional<std::int64_t> conv = {};
  std::optional<std::int64_t> length = {};  ///< positions; nothing: as many as before
  NewPositions positions = NewPositions::tile;
  std::string keep_exact = {};  ///< layers that keep exact attention: "0,10-11"; empty: none
};

/// The configuration of the converted model: attention.kind and semantics are nystrom, except in
/// the layers of keep_exact. Throws an InputError for a model that has other than exact attention,
/// for fewer positions, more landmarks than positions, another convolution than the model's own,
/// and layers that are malformed, absent, or all.
ModelConfig converted_config(const ModelFolder& source, const ConvertOptions& options);

/// The converted model. It has the weights of `source`. Taps of a new convolution are 0, so that it
/// adds nothing until they are learned.
std::unique_ptr<Model> convert_model(const ModelFolder& source, const ConvertOptions& options);

}  // namespace nystrom
