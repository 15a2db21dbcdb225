// A model for longer sequences out of a trained one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "train/model_folder.h"

namespace nystrom {

/// How rows of positions that were never trained begin.
enum class NewPositions {
  tile,         ///< the trained ones again, from the first on (as Longformer, arXiv 2004.05150)
  interpolate,  ///< the trained ones stretched over the new length, linearly between neighbours
};

std::span<const EnumName<NewPositions>> enum_names(NewPositions);

struct ExtendOptions {
  std::int64_t length = 0;  ///< positions of the new model
  std::optional<std::int64_t> landmarks;
  NewPositions positions = NewPositions::tile;
};

/// The rows of a position table [2 + old, c] for `length` positions: [2 + length, c] f32. The first two rows, which belong to no position
/// (position i reads row i + 2), stay.
Tensor extended_positions(const Tensor& table, std::int64_t length, NewPositions positions);

/// The model of `source` with a longer position table; for training on, since new positions are only a beginning. InputError for a length
/// that is not longer (unless the landmarks change), fewer positions than landmarks, and a model without position table.
std::unique_ptr<Model> extend_model(const ModelFolder& source, const ExtendOptions& options);

}  // namespace nystrom
