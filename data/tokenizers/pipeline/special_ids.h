// Which tokens of a vocabulary are special, and what stands around a text.
#pragma once

#include "data/tokenizers/pipeline/pipeline_tokenizer.h"
#include "data/tokenizers/pipeline/tokenizer_settings.h"

namespace nystrom {

/// Fills in parts.special: what the settings name (InputError when it is no piece), else what the
/// post-processor puts around texts, the model's unknown token, and pieces of the usual names.
///
/// Where the post-processor puts nothing around texts, but cls and sep are known, it is made to:
/// pretraining, tasks, prediction and exports all see cls text sep. Without them a text stays
/// alone, and masked language models refuse the tokenizer.
void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings);

}  // namespace nystrom
