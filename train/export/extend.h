// Models made of trained ones: for longer sequences, or with Nyström attention in the place of
// exact attention, and the comparison of these with their parents.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/objectives/evaluation.h"
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

/// The number of positions whose rows are trained. In a checkpoint of a run that began from nothing
/// they are those of its longest sequences. Of any other folder all count: an earlier run may have
/// trained them; and of a run before its first step, whose rows are all alike.
std::int64_t trained_positions(const ModelFolder& source);

/// The position table [offset + old, c] for `length` positions: [offset + length, c] f32. The first
/// `offset` rows belong to no position (position i reads row i + offset), and stay as they are.
Tensor extended_positions(const Tensor& table, std::int64_t offset, std::int64_t length,
                          NewPositions positions);

/// The model of `source` with more than its trained positions, for further training; new rows take
/// the place of untrained ones. Throws an InputError for a length that is not longer, unless the
/// landmarks change. Fewer positions than landmarks, a model without position table, and attention
/// with weights for each position (linformer) are InputErrors too. So is a model that cannot be
/// built.
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

/// Throws an InputError if one of `overrides` (--set) gives an option another value than the new
/// model has, because the command sets it.
void require_kept(const std::vector<std::string>& overrides, const ModelConfig& before,
                  const ModelConfig& after);

/// The numbers of landmarks that are compared.
inline constexpr std::array<std::int64_t, 4> compared_landmarks = {32, 64, 128, 256};
/// The largest relative error of the attention's output that an advised number may have.
inline constexpr double advised_error = 0.2;

/// The approximation of one layer's exact attention.
struct LayerError {
  /// |approximation − exact| / |exact| of the attention's output with each number of
  /// compared_landmarks. It is the mean over heads and sequences.
  std::array<double, compared_landmarks.size()> errors{};

  /// The smallest number of landmarks below `length`, where attention becomes exact, whose error is
  /// at most advised_error. Nothing: exact attention is advised.
  std::optional<std::int64_t> advised_landmarks(std::int64_t length) const;
};

/// The findings about a conversion.
struct ConversionStudy {
  Evaluation parent, converted;  ///< with the same masks
  std::int64_t sequence_length = 0;
  std::int64_t sequences = 0;      ///< sequences of the errors
  std::vector<LayerError> layers;  ///< on the parent's inputs
};

/// Evaluates both models on `samples`, and the layers of the parent on some of the longest
/// sequences. `progress` is called with the number of finished parts of the work, and their total.
/// Throws an InputError if no token can be masked.
ConversionStudy study_conversion(
    const Model& parent, const Model& converted, const MaskedSamples& samples,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress);

/// The files of a model's folder beside the weights.
struct FolderFiles {
  std::map<std::string, std::string> texts;    ///< by the names of their files
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null: it has none
  std::int64_t longest = 0;                    ///< the longest input in tokens
};

/// The files of a folder with a model that was made of `source` and has this configuration: what
/// `source` keeps of its task, its dropout and its labels is in them. Throws an InputError where
/// config.json cannot hold the configuration.
FolderFiles files_made_of(const ModelFolder& source, ModelConfig config,
                          std::shared_ptr<const Tokenizer> tokenizer, std::int64_t longest);

/// Writes `model` and these files into `folder`, which must not exist or be empty. It has the form
/// of a checkpoint, for model.from, and is complete or absent. Throws an InputError for weights
/// that are not finite.
void write_model_folder(const FolderFiles& files, const Model& model,
                        const std::filesystem::path& folder);

/// The same with the files that are made of `source` and its tokenizer, for inputs of up to
/// `longest` tokens. `log` hears of a missing tokenizer and of a generator that is left out.
void write_model_folder(const ModelFolder& source, const Model& model, std::int64_t longest,
                        const std::filesystem::path& folder, Log& log);

}  // namespace nystrom
