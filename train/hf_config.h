// config.json of a Hugging Face model folder: reading what others wrote and writing what `AutoConfig` loads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "nn/model_config.h"

namespace nystrom {

/// Reads config.json, given itself or the folder it lies in.
///
/// Absent keys have the defaults of Hugging Face's class and unknown ones are ignored. `architectures` decides the head; absent, it is
/// Head::none (the encoder alone). Labels come from `id2label`, else `num_labels`, else there are two. Without our `nystrom` block
/// attention.semantics is transformers; the block holds options of ours (norm, positions, embed_dim, attention), wins over the keys
/// outside, and knows no others.
/// InputError "FILE: KEY: …" for a wrong type, null (but for conv_kernel_size), range or word, another model_type, a causal model, and
/// everything that problems(config) finds.
ModelConfig read_hf_config(const std::filesystem::path& folder_or_file);

/// The same from the file's text; `source` stands in front of errors.
ModelConfig parse_hf_config(std::string_view text, const std::string& source);

/// The text of config.json for `config`: the keys that Hugging Face writes, sorted, and our `nystrom` block.
/// No convolution stands as a kernel of 1 outside the block, since transformers 5 rejects null; the block restores it.
std::string hf_config_text(const ModelConfig& config);

}  // namespace nystrom
