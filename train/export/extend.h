// Extension of a trained model to longer sequences.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "train/state/model_folder.h"

namespace nystrom {

/// The initial values of new positions.
enum class NewPositions {
  /// The trained rows again, from the first on (as in Longformer, arXiv 2004.05150).
  tile,
  /// The trained rows stretched over the new length, with linear interpolation.
  interpolate,
};

std::span<const EnumName<NewPositions>> enum_names(NewPositions);

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

/// The model of `source` under another configuration, with its weights. A longer position table is
/// filled as `positions` says. Parameters that `source` lacks are 0.
std::unique_ptr<Model> rebuilt_model(const ModelFolder& source, const ModelConfig& config,
                                     NewPositions positions);

/// Writes `model`, which was made of `source`, and the tokenizer of `source` into `folder`, for
/// inputs of up to `longest` tokens. The folder must not exist or be empty. It has the form of a
/// checkpoint, for model.from, and is complete or absent. `log` hears of a missing tokenizer.
void write_model_folder(const ModelFolder& source, const Model& model, std::int64_t longest,
                        const std::filesystem::path& folder, Log& log);

/// The result of an extension.
struct ExtendResult {
  std::int64_t parameters = 0, landmarks = 0;
};
/// Writes the extended model and the tokenizer of `source` by write_model_folder.
ExtendResult write_extended(const ModelFolder& source, const ExtendOptions& options,
                            const std::filesystem::path& folder, Log& log);

}  // namespace nystrom
