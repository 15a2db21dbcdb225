// Opening of model folders: configuration and weights in one call.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"
#include "train/config/config_io.h"
#include "train/state/hf_config.h"
#include "train/state/model_weights.h"
#include "train/state/sentence_modules.h"

namespace nystrom {

/// The prefix of the names of the sentence-order head's weights.
inline constexpr std::string_view sentence_order_prefix = "cls.seq_relationship.";

/// An opened folder of config.json and model.safetensors, and what was found in it. These two
/// are opened once; copies share them.
struct ModelFolder {
  ModelFolder() = default;
  /// Opens `path`, with `--set model.…` overrides applied. Throws an InputError for a model that
  /// cannot be built. With HeadUse::replaceable it need not be: options of a run override its
  /// configuration, and the result is checked.
  explicit ModelFolder(std::filesystem::path path, HeadUse use = HeadUse::kept,
                       const std::vector<std::string>& overrides = {});

  /// The weights, whose headers are read at the first call. Throws the errors of
  /// ModelWeights::open.
  const ModelWeights& weights() const;
  bool has_weights() const { return ModelWeights::exist(path); }
  /// The same folder as a model of another configuration.
  ModelFolder with(ModelConfig other) const;

  std::filesystem::path path;
  ModelConfig config;
  std::shared_ptr<const nlohmann::json> config_json;  ///< what the file states
  const Architecture* architecture = nullptr;  ///< of BERT's family; null for a Nyströmformer
  std::optional<SentenceModules> modules;      ///< of sentence-transformers
  /// Whether its masked-LM head has a decoder with other weights than the word embeddings.
  /// transformers 5 keeps such a decoder, whatever tie_word_embeddings says.
  bool own_decoder = false;

 private:
  std::shared_ptr<std::optional<ModelWeights>> weights_;
};

/// Opens MODEL. A Hugging Face folder or a checkpoint is itself the folder. A name of the hub
/// ("org/name") that is no folder is looked for in the hub's cache (find_in_hub_cache). For a run
/// directory it is the checkpoint with the best evaluation, else the newest intact one. Each
/// damaged checkpoint that is passed over gives a warning. `--set model.…` overrides are applied to
/// the configuration, and what is read in another way than one might expect is logged:
/// semantics_notice, unread_tensors and so on; of a folder to start from, what does not depend on
/// the run. Throws an InputError when MODEL is none of these or cannot be built.
ModelFolder open_model(const std::filesystem::path& model,
                       const std::vector<std::string>& overrides, Log& log,
                       HeadUse use = HeadUse::kept);

/// What Log puts in front of warnings.
inline constexpr std::string_view warning_mark = "warning: ";

/// The file or folder that tokenizer.path names; of a run directory or a sweep, the folder of its
/// model; of a model in the hub's cache, its folder there; of a folder of sentence-transformers,
/// that of its encoder.
std::filesystem::path find_tokenizer(const std::filesystem::path& path);

/// Lines about a decoder that transformers 4 and 5 use in different ways, if the model reads it.
std::vector<std::string> decoder_notices(const ModelFolder& folder);

/// Lines about a tokenizer, in its folder or file, that other programs use otherwise.
std::vector<std::string> tokenizer_notices(const std::filesystem::path& place);

/// What config_sentence_transformers.json of a model of pairs (CrossEncoder) says; an empty object
/// for other folders.
nlohmann::json cross_encoder_settings(const std::filesystem::path& folder);

/// "; model_head.pkl, a classifier of SetFit, is not read" where a folder has one; else empty.
std::string classifier_remark(const std::filesystem::path& folder);

/// The file with the settings of the training that made a folder; nothing if there is none, or only
/// another program's config.yaml in a folder that is no checkpoint.
std::optional<std::filesystem::path> settings_beside(const std::filesystem::path& folder);

/// The folder of config.json and model.safetensors that MODEL names, found as by open_model.
std::filesystem::path find_model(const std::filesystem::path& model, Log& log);

/// The file in which a run in Python tells the types of its labels; as in
/// python/nystrom/_options.py.
inline constexpr const char* label_types_file = "label_types.json";

/// Its text, of a folder or of the run of a checkpoint, for a folder that is made of the model;
/// empty without one.
std::string label_types_of(const ModelFolder& source);

/// The longest input, in tokens with the special ones, that the model was trained with. It is
/// segment_means_seq_len, unless that stands for the exact case. Then it is the
/// data.sequence_length in a checkpoint's config.yaml, else the tokenizer's model_max_length. It
/// never exceeds the model's limit.
std::int64_t trained_length(const ModelFolder& folder);

/// Loads a model with its weights. Loading is strict, see load_weights and TensorFile. For a
/// model without convolution, the zero kernels that weight_tensors writes are ignored; other
/// kernels are InputErrors.
std::unique_ptr<Model> load_model(const ModelFolder& folder, DType dtype, StoreMode mode,
                                  Device device = cpu_device);

/// A hash of a model's configuration and weights.
std::string model_hash(const Model& model);

/// Whether the weights of a folder have all parameters of a masked-LM head on its encoder.
bool holds_masked_lm_head(const ModelFolder& folder);

/// ModelFolder::own_decoder, found in the weights.
bool has_own_decoder(const ModelFolder& folder);

/// Weights of a folder that its model does not read, such as the pooler of a masked language model
/// and other heads; without buffers and copies.
std::vector<std::string> unread_tensors(const ModelFolder& folder);
/// Whether a folder of a masked language model holds two biases of its outputs that differ.
bool has_unlike_biases(const ModelFolder& folder);

/// Which weights of a model came from a folder.
struct StartWeights {
  std::size_t loaded = 0;
  /// Parameters that the folder lacks, and tensors of the folder that the model lacks.
  std::vector<std::string> fresh, unused;
  std::string outputs{};  ///< what the outputs of a head without own names of labels are taken for

  /// One line: "201 tensors of runs/small/checkpoints/step-9; fresh: classifier.weight; unused:
  /// cls.predictions.bias".
  std::string summary(const std::filesystem::path& folder) const;
};

/// Throws the InputErrors of initialise_from, without an allocated model.
void check_start(const ModelConfig& config, const ModelFolder& folder, bool fresh_head);

/// Gives an allocated model the weights of a folder, to continue training. The encoder must match
/// the folder's strictly (load_weights). The head is the folder's if both have the same one.
/// Otherwise, or with `fresh_head`, it is fresh, from `seed` and the configuration's
/// initializer_range. Throws an InputError for a position table of another length and for a head
/// with other labels.
StartWeights initialise_from(Model& model, const ModelFolder& folder, std::uint64_t seed,
                             bool fresh_head);

/// The tensors of model.safetensors: every parameter in its most exact copy, on the CPU. A model
/// without convolution gets a zero kernel [heads, 1, 1, 1] a layer. config.json then names a kernel
/// size of 1, and transformers would initialise an absent kernel at random.
/// Where `masters`, a slab that is laid out as the store's, is given, the values are from it.
std::vector<NamedTensor> weight_tensors(const Model& model, const Tensor& masters = {});

/// Whether the folder is a checkpoint with the generator of pretraining.objective replaced_tokens.
bool has_generator(const ModelFolder& folder);

/// The model's tokenizer (see open_tokenizer), or null when the folder has none. Throws an
/// InputError when it has more tokens than the model.
std::unique_ptr<Tokenizer> open_tokenizer_of(const ModelFolder& folder);
/// The same for a use that needs one: throws an InputError when the folder has none.
std::unique_ptr<Tokenizer> require_tokenizer_of(const ModelFolder& folder);

/// Throws an InputError unless the folder has a masked language model, and its tokenizer (or null)
/// suits one.
void require_masked_lm(const ModelFolder& folder, const Tokenizer* tokenizer);

/// The tokenizer of a masked language model. Throws the InputErrors of require_masked_lm.
std::unique_ptr<Tokenizer> open_masked_lm_tokenizer(const ModelFolder& folder);

/// One line about semantics that a reader of the folder might not expect: Hugging Face's, or its
/// exact case. Empty for all other models.
std::string semantics_notice(const ModelConfig& config);

}  // namespace nystrom
