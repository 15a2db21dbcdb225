// Models made of trained ones: for longer sequences, or with Nyström attention in the place of
// exact attention.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "train/state/model_folder.h"

namespace nystrom {

/// The initial values of new positions.
enum class NewPositions {
  /// The trained rows again, from the first on (as in Longformer, arXiv 2004.05150).
  tile,
  /// The trained rows stretched over the new length, with linear interpolation.
  interpolate,
};

/// The options of an extension.
struct ExtendOptions {
  std::int64_t length = 0;  ///< positions of the new model
  std::optional<std::int64_t> landmarks;
  NewPositions positions = NewPositions::tile;
};

/// The position table [offset + old, c] for `length` positions: [offset + length, c] f32. The first
/// `offset` rows belong to no position (position i reads row i + offset), and stay as they are.
Tensor extended_positions(const Tensor& table, std::int64_t offset, std::int64_t length,
                          NewPositions positions);

/// The model of `source` with a longer position table, for further training. Throws an InputError
/// for a length that is not longer, unless the landmarks change. Fewer positions than landmarks, a
/// model without position table, and attention with weights for each position (linformer) are
/// InputErrors too. So is a model that cannot be built.
std::unique_ptr<Model> extend_model(const ModelFolder& source, const ExtendOptions& options);

/// The options of a conversion.
struct ConvertOptions {
  std::int64_t landmarks = 64;
  /// Taps of the convolution; nothing: those of the model, else 33.
  std::optional<std::int64_t> conv = {};
  std::optional<std::int64_t> length = {};  ///< positions; nothing: as many as before
  NewPositions positions = NewPositions::tile;
  std::string keep_exact = {};  ///< layers that keep exact attention: "0,10-11"; empty: none
};

/// The converted model: attention.kind and semantics are nystrom, except in the layers of
/// keep_exact. It has the weights of `source`. Taps of a new convolution are 0, so that it adds
/// nothing until they are learned. Throws an InputError for a model that has other than exact
/// attention, for fewer positions, more landmarks than positions, another convolution than the
/// model's own, and layers that are malformed, absent, or all.
std::unique_ptr<Model> convert_model(const ModelFolder& source, const ConvertOptions& options);

/// Writes `model`, which was made of `source`, and the tokenizer of `source` into `folder`, for
/// inputs of up to `longest` tokens. The folder must not exist or be empty. It has the form of a
/// checkpoint, for model.from, and is complete or absent. `log` hears of a missing tokenizer.
void write_model_folder(const ModelFolder& source, const Model& model, std::int64_t longest,
                        const std::filesystem::path& folder, Log& log);

}  // namespace nystrom
