// Comparison of a model with exact attention and the Nyström encoder that it was converted into.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "train/objectives/evaluation.h"
#include "train/state/model_folder.h"

namespace nystrom {

/// The numbers of landmarks that are compared.
inline constexpr std::array<std::int64_t, 4> compared_landmarks = {32, 64, 128, 256};
/// The largest relative error of the attention's output that an advised number may have.
inline constexpr double advised_error = 0.2;

/// The approximation of one layer's exact attention.
struct LayerError {
  /// |approximation − exact| / |exact| of the attention's output with each number of
  /// compared_landmarks. It is the mean over heads and sequences.
  std::array<double, compared_landmarks.size()> errors{};

  /// The smallest number of landmarks whose error is at most advised_error. Nothing: exact
  /// attention is advised.
  std::optional<std::int64_t> advised_landmarks() const;
};

/// The findings about a conversion.
struct ConversionStudy {
  Evaluation parent, converted;  ///< with the same masks
  std::int64_t sequence_length = 0;
  std::int64_t sequences = 0;      ///< sequences of the errors
  std::vector<LayerError> layers;  ///< on the parent's inputs
};

/// Called with the number of finished parts of the work, and their total.
using ConversionProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Evaluates both models on `samples`, and the layers of the parent on some of the longest
/// sequences. Throws an InputError if no token can be masked.
ConversionStudy study_conversion(const Model& parent, const Model& converted,
                                 const MaskedSamples& samples, const ConversionProgress& progress);

}  // namespace nystrom
