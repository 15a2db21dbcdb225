// Verification of an exported folder, and measurement of the difference between transformers'
// attention and nystrom's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"

namespace nystrom {

/// The difference between nystrom's semantics on a text and transformers' semantics on the same
/// text. For transformers the text is padded to segment_means_seq_len, except for exact attention.
struct ExportDifference {
  std::int64_t tokens = 0;     ///< tokens of the text, with the special ones
  std::int64_t positions = 0;  ///< positions of transformers' row
  double absolute = 0;         ///< largest difference over all results at the text's tokens
  double relative = 0;         ///< absolute, divided by the largest of nystrom's results
};

/// Reads `folder` back and compares it with its source: weights bit by bit with `source`, ids,
/// templates, token types and special tokens of sample texts with `tokenizer`, and the model
/// classes with this program's. `tokenizer` is null if there is none. For a folder that names
/// transformers' own class, then runs the model in both semantics on texts of up to `longest`
/// tokens. They are bundled texts or, without a tokenizer, random ids. Throws an Error when
/// anything differs, and when results of exact attention differ beyond rounding.
std::vector<ExportDifference> verify_export(const std::filesystem::path& folder,
                                            const Model& source, const Tokenizer* tokenizer,
                                            std::int64_t longest);

/// The files of `folder` that have the name of a model class and another text: "a.py and b.py".
/// They were edited, or are of another version. Empty if there are none.
std::string foreign_classes(const std::filesystem::path& folder);

/// The configuration that transformers reads: config.json of `folder` without the `nystrom` block.
ModelConfig config_in_transformers(const std::filesystem::path& folder);

}  // namespace nystrom
