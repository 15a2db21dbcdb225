// A model for longer sequences out of a trained one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "train/checkpoint/model_folder.h"

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

/// The rows of a position table [2 + old, c] for `length` positions: [2 + length, c] f32. The first
/// two rows, which belong to no position (position i reads row i + 2), stay.
Tensor extended_positions(const Tensor& table, std::int64_t length, NewPositions positions);

/// The model of `source` with a longer position table; for training on, since new positions are
/// only a beginning. InputError for a length that is not longer (unless the landmarks change),
/// fewer positions than landmarks, a model without position table, one whose attention has weights
/// for each position (linformer), and what cannot be built.
std::unique_ptr<Model> extend_model(const ModelFolder& source, const ExtendOptions& options);

/// What was written.
struct ExtendResult {
  std::int64_t parameters = 0, landmarks = 0;
};
/// Writes that model with the tokenizer of `source` into `folder`, which must not exist or be
/// empty: a folder as checkpoints are, for model.from, whole or not at all. Where transformers
/// cannot run it, `log` says why.
ExtendResult write_extended(const ModelFolder& source, const ExtendOptions& options,
                            const std::filesystem::path& folder, Log& log);

}  // namespace nystrom
