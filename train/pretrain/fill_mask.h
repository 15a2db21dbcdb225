// What a masked language model puts in the place of masks: the task of Hugging Face's fill-mask
// pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"

namespace nystrom {

/// A token for a mask, with the fields of the pipeline.
struct MaskFill {
  double score;           ///< its probability
  std::int32_t token;     ///< its id
  std::string token_str;  ///< its text
  std::string sequence;  ///< the text with it in place; of several masks the others stay, and so do
                         ///< [CLS] and [SEP]
};

/// The `top_k` argmax tokens of each mask, argmax first; among equals the lower id. No dropout.
///
/// The names of special tokens in `text` are these tokens. A model that computes one length alone
/// gets its padding. InputError for a text that is empty, no UTF-8, without a mask or longer than
/// the model takes.
std::vector<std::vector<MaskFill>> fill_masks(const Model& model, const Tokenizer& tokenizer,
                                              std::string_view text, std::int64_t top_k);

/// The three argmax words for each mask of a text in which [MASK] stands for the tokenizer's own.
/// InputError as fill_masks.
std::vector<std::vector<MaskFill>> sample_fills(const Model& model, const Tokenizer& tokenizer,
                                                std::string text);

/// What json.dumps says of the pipeline's result: a list of objects for one mask, a list of such
/// lists for several.
std::string fill_mask_json(const std::vector<std::vector<MaskFill>>& masks);

}  // namespace nystrom
