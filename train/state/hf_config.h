// config.json of a Hugging Face model folder: reading any valid one, and writing one that
// `AutoConfig` loads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model_config.h"
#include "train/state/architecture.h"

namespace nystrom {

/// What a command does with the head of a folder.
enum class HeadUse {
  kept,  ///< it counts: a head that nystrom lacks is an error
  /// A run may keep it or begin a new one: a head that nystrom lacks is read as Head::none.
  replaceable,
  discarded,  ///< the encoder alone counts: Head::none, whatever the file says
};

/// Reads a parsed config.json; `source` stands in front of errors. A configuration that options
/// still change need not be buildable.
///
/// Absent keys have the defaults of Hugging Face's class, and unknown keys are ignored.
/// `architectures` selects the head; if absent, it is Head::none (the encoder alone), until
/// ModelFolder finds a masked-LM head among the weights. Labels, which some heads have, come
/// from `id2label`, else from `num_labels`, else there are two. The `nystrom` block holds options
/// of nystrom only (norm, positions, embed_dim, attention). It takes precedence over keys outside,
/// and unknown keys in it are errors. Without it attention.semantics is transformers.
///
/// A folder of BERT's family (train/state/architecture.h) is read with the keys and defaults of
/// its class, as a model with exact attention.
///
/// Throws an InputError "FILE: KEY: …":
/// - for a wrong type, null (except conv_kernel_size), a wrong range or word
/// - for a model_type other than nystrom (which needs the block), nystromformer and BERT's family
/// - for an option of BERT's family that nystrom lacks: relative positions, a decoder, …
/// - for a problem_type that is not the head's, and for a causal model
ModelConfig read_hf_keys(const nlohmann::json& config_json, const std::string& source,
                         HeadUse use = HeadUse::kept);

/// Whether the class that config.json names ends like that of the head: "MyForTokenClassification".
bool names_head(const nlohmann::json& config_json, Head head);
/// Whether config.json names a class, in `architectures`.
bool names_class(const nlohmann::json& config_json);

/// read_hf_keys on the file's text. Also throws an InputError for everything that problems(config)
/// finds.
ModelConfig parse_hf_config(std::string_view text, const std::string& source);

/// The labels of a head whose file names none: "LABEL_0", "LABEL_1", …, as transformers has them.
std::vector<std::string> unnamed_labels(std::int64_t count);
/// Whether outputs have those names alone, which stand for any labels but not for each other.
bool stand_for(const std::vector<std::string>& outputs, const std::vector<std::string>& labels);

/// The class for a head in the folder's model_classes: "NystromForMaskedLM", "NystromModel", …
std::string own_class(Head head);

/// transformers' class of an architecture for a head: "BertForMaskedLM", "BertModel", …
std::string architecture_class(const Architecture& architecture, Head head);

/// transformers' Auto class for a head: "AutoModelForMaskedLM", "AutoModel", …
std::string auto_class(Head head);

/// The classes that config.json names by model_type, architectures and auto_map.
enum class NamedClasses {
  /// transformers' own ("nystromformer") if they compute the same (computed_by_transformers), else
  /// nystrom's ("nystrom").
  by_computation,
  /// The same, with the auto_map of a folder that holds model_classes().
  in_folder,
  /// transformers' own, for an export that lists the differences.
  of_transformers,
};

/// The text of config.json for `config`: the keys that Hugging Face writes, sorted, and the
/// `nystrom` block. For exact attention, segment_means_seq_len = num_landmarks, which makes
/// transformers compute it. A model without convolution has a kernel of 1 outside the block,
/// because transformers 5 rejects null; the block holds null.
std::string hf_config_text(const ModelConfig& config,
                           NamedClasses classes = NamedClasses::by_computation);

/// The text of config.json for `config` as a folder of `architecture`, which transformers loads
/// with its own classes: the inverse of parse_hf_config for what architecture_obstacle accepts.
std::string hf_config_text(const ModelConfig& config, const Architecture& architecture);

/// The reason why a folder of `architecture` cannot represent the model: the first option that
/// reading its config.json would change. Empty if it can. How texts become vectors is not
/// compared: files of sentence-transformers state it.
std::string architecture_obstacle(const ModelConfig& config, const Architecture& architecture);

/// The architecture of BERT's family that config.json names; null for a Nyströmformer.
const Architecture* architecture_of(const nlohmann::json& config_json);

/// Whether config.json names transformers' own class as its model_type.
bool names_transformers_class(const nlohmann::json& config_json);

/// Sets bos_token_id and eos_token_id to the tokenizer's cls and sep, or to null if it lacks them.
/// Without these keys transformers takes its class's defaults, which are other tokens.
void set_text_ends(ModelConfig& config, const SpecialIds& special);

}  // namespace nystrom
