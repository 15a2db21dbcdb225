// config.json of a Hugging Face model folder: reading what others wrote and writing what
// `AutoConfig` loads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "data/tokenizers/tokenizer.h"
#include "nn/model_config.h"

namespace nystrom {

/// Reads config.json, given itself or the folder it lies in.
///
/// Absent keys have the defaults of Hugging Face's class and unknown ones are ignored.
/// `architectures` decides the head; absent, it is Head::none (the encoder alone). Labels come from
/// `id2label`, else `num_labels`, else there are two. Without our `nystrom` block
/// attention.semantics is transformers; the block holds options of ours (norm, positions,
/// embed_dim, attention), wins over the keys outside, and knows no others. InputError "FILE: KEY:
/// …" for a wrong type, null (but for conv_kernel_size), range or word, another model_type than
/// nystrom (which needs our block) and nystromformer, a problem_type that is not the head's, a
/// causal model, and everything that problems(config) finds.
ModelConfig read_hf_config(const std::filesystem::path& folder_or_file);

/// The same without problems(config), for a configuration that options still change: what they
/// change must not be refused before.
ModelConfig read_hf_keys(const std::filesystem::path& folder_or_file);

/// The same as read_hf_config from the file's text; `source` stands in front of errors.
ModelConfig parse_hf_config(std::string_view text, const std::string& source);

/// Which class config.json names by its model_type.
enum class ModelType {
  by_computation,  ///< transformers' own, "nystromformer", where that computes the same
                   ///< (computed_by_transformers), else "nystrom"
  transformers,    ///< transformers' own, for an export that says what is different
};

/// The text of config.json for `config`: the keys that Hugging Face writes, sorted, and our
/// `nystrom` block. A model with exact attention that transformers has too gets
/// segment_means_seq_len = num_landmarks, by which transformers computes it. No convolution stands
/// as a kernel of 1 outside the block, since transformers 5 rejects null; the block restores it.
std::string hf_config_text(const ModelConfig& config, ModelType type = ModelType::by_computation);

/// Gives config.json the tokenizer's cls and sep as bos_token_id and eos_token_id; null for those
/// that it does not have. Without them transformers takes its class's defaults, which are other
/// tokens.
void set_text_ends(ModelConfig& config, const SpecialIds& special);

}  // namespace nystrom
