// Special tokens of a vocabulary, and the template that puts them around a text.
#pragma once

#include "data/tokenizers/pipeline/pipeline_tokenizer.h"
#include "data/tokenizers/pipeline/tokenizer_settings.h"

namespace nystrom {

/// Sets parts.special, and what the settings say about the files to write. The names of the
/// settings come first; a name that is not a piece is an InputError. The tokens of the
/// post-processor, the model's unknown token, and pieces with common names follow.
///
/// When the post-processor adds no special tokens but cls and sep are known, this function gives it
/// the template cls text sep. Pretraining, tasks, prediction and exports then all use the same
/// template. Without cls or sep a text gets no special tokens, and masked language models refuse
/// the tokenizer.
void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings);

}  // namespace nystrom
