// Predicts the tokens at the masks of a text, like Hugging Face's fill-mask pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"

namespace nystrom {

/// A predicted token for a mask, with the fields of the pipeline.
struct MaskFill {
  double score;           ///< probability of the token
  std::int32_t token;     ///< id of the token
  std::string token_str;  ///< text of the token
  /// The text with the token in place of the mask. If the text has several masks, it keeps the
  /// others, [CLS] and [SEP].
  std::string sequence;
};

/// The `top_k` most probable tokens for each mask, without dropout. They are sorted by probability,
/// highest first, then by id. `top_k` is between 1 and the model's vocab_size.
///
/// Names of special tokens in `text` become these tokens. For a model with a fixed length the input
/// is padded. Throws an InputError if the text is empty, not UTF-8, without a mask or too long for
/// the model.
std::vector<std::vector<MaskFill>> fill_masks(const Model& model, const Tokenizer& tokenizer,
                                              std::string_view text, std::int64_t top_k);

/// The three most probable tokens for each mask of a text. [MASK] in the text means the tokenizer's
/// own mask token. Throws an InputError like fill_masks.
std::vector<std::vector<MaskFill>> sample_fills(const Model& model, const Tokenizer& tokenizer,
                                                std::string text);

/// The result as JSON, formatted like json.dumps of the pipeline's result: a list of objects for
/// one mask, or a list of such lists for several masks.
std::string fill_mask_json(const std::vector<std::vector<MaskFill>>& masks);

}  // namespace nystrom
