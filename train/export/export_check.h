// Reading an exported folder back, and measuring how far transformers' attention is from ours on
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"

namespace nystrom {

/// Between our semantics on a text as it is and transformers' on the same text, padded to
/// segment_means_seq_len unless it computes exact attention.
struct ExportDifference {
  std::int64_t tokens = 0;     ///< of the text, the special ones included
  std::int64_t positions = 0;  ///< of the row that transformers gets
  double absolute = 0;         ///< largest, over all results at the text's tokens
  double relative = 0;         ///< the same divided by the largest entry of our results
};

/// Reads `folder` back and compares it with what it was made of: weights bit by bit with `source`,
/// ids of a sample text with `tokenizer` (null: there is none). Then runs the model on texts of up
/// to `longest` tokens, bundled ones or, without tokenizer, random ids, in both semantics. Error
/// when something differs that must not: weights, ids, and for exact attention the results, beyond
/// rounding.
std::vector<ExportDifference> check_export(const std::filesystem::path& folder, const Model& source,
                                           const Tokenizer* tokenizer, std::int64_t longest);

/// What `config`'s head gives, as it is called in messages.
const char* result_name(const ModelConfig& config);

}  // namespace nystrom
