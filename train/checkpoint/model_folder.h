// A model folder as programs use it: configuration and weights in one call.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"
#include "train/config/start_defaults.h"
#include "train/formats/safetensors.h"
#include "train/logging/log.h"

namespace nystrom {

/// What the names of the sentence-order head's weights begin with.
inline constexpr std::string_view sentence_order_prefix = "cls.seq_relationship.";

/// What a MODEL argument names.
struct ModelFolder {
  std::filesystem::path path;  ///< of config.json and model.safetensors
  ModelConfig config;
};

/// Finds MODEL: a Hugging Face folder or a checkpoint is itself the folder; of a run directory it
/// is the best checkpoint by its evaluations, else the newest whole one, with a warning for each
/// damaged one that is passed over. Its configuration has `--set model.…` overrides applied, and
/// semantics_notice is said. InputError when it is none of these or cannot be built.
ModelFolder open_model_folder(const std::filesystem::path& model,
                              const std::vector<std::string>& overrides, Log& log);

/// The folder of a MODEL to start from (model.from). Its configuration may be one that cannot be
/// built: options of the run stand over it, and what they make of it is checked.
ModelFolder open_start_folder(const std::filesystem::path& model, Log& log);

/// The folder of config.json and model.safetensors that MODEL names, as open_model_folder finds it.
std::filesystem::path find_model(const std::filesystem::path& model, Log& log);

/// The most tokens, special ones included, that the model was trained with: segment_means_seq_len,
/// or in the exact case, where that says something else, the data.sequence_length of a checkpoint's
/// config.yaml, else the tokenizer's model_max_length; never more than the model takes.
std::int64_t trained_length(const ModelFolder& folder);

/// What a run that starts from the folder has for defaults: the ReadStart of read_config.
StartDefaults start_defaults(const std::string& from);

/// The configuration of a Hugging Face folder with `--set model.…` overrides applied. InputError
/// for anything that cannot be built.
ModelConfig read_model_config(const std::filesystem::path& folder,
                              const std::vector<std::string>& overrides);

/// The model with its weights: strict, see load_weights and SafetensorsFile. Zero kernels as
/// weight_tensors writes them for a model without convolution are passed over; others are
/// InputErrors.
std::unique_ptr<Model> load_model(const std::filesystem::path& folder, const ModelConfig& config,
                                  DType dtype, StoreMode mode, Device device = cpu_device);

/// What of a model came from a folder.
struct StartWeights {
  std::size_t loaded = 0;
  std::vector<std::string> fresh,
      unused;  ///< parameters that the folder lacks; tensors of the folder that the model lacks

  /// One line: "201 tensors of runs/small/checkpoints/step-9; fresh: classifier.weight; unused:
  /// cls.predictions.bias".
  std::string summary(const std::filesystem::path& folder) const;
};

/// Refuses what initialise_from would, without an allocated model.
void check_start(const ModelConfig& config, const ModelFolder& folder, bool fresh_head);

/// Gives an allocated model the weights of a folder to train on from. The encoder must be the
/// folder's, strictly (load_weights); the head is the folder's where both have the same one, else
/// fresh (from `seed` and the configuration's initializer_range), as it is with `fresh_head`.
/// InputError for a position table of another length and for a head with other labels.
StartWeights initialise_from(Model& model, const ModelFolder& folder, std::uint64_t seed,
                             bool fresh_head);

/// What model.safetensors holds: every parameter in its most exact copy, on the CPU, and for a
/// model without convolution a zero kernel [heads, 1, 1, 1] a layer: config.json says a kernel of 1
/// there, and transformers would initialise an absent one at random.
std::vector<NamedTensor> weight_tensors(const Model& model);
/// The same with the parameters of a slab laid out as the store's.
std::vector<NamedTensor> weight_tensors(const Model& model, const Tensor& masters);

/// The model's tokenizer (see open_tokenizer), null when the folder has none. InputError when it
/// has more pieces than the model.
std::unique_ptr<Tokenizer> open_tokenizer_of(const ModelFolder& folder);

/// The tokenizer of a masked language model. InputError when the model is another, or there is no
/// tokenizer that fits.
std::unique_ptr<Tokenizer> open_masked_lm_tokenizer(const ModelFolder& folder);

/// One line about what `config` will compute that a reader of the folder might not expect (Hugging
/// Face's semantics, or its exact case); empty when there is nothing to say.
std::string semantics_notice(const ModelConfig& config);

}  // namespace nystrom
