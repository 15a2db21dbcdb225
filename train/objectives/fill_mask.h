// Predicts the tokens at the masks of a text, like Hugging Face's fill-mask pipeline, and records
// those of a few texts during training for the report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
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

/// The predictions for each mask of a text.
using MaskFills = std::vector<std::vector<MaskFill>>;

/// A text whose masks are to be filled.
struct MaskedText {
  std::vector<std::int32_t> ids;     ///< with [CLS] and [SEP]
  std::vector<std::int64_t> places;  ///< of the masks in `ids`
};

/// The tokens of a text. Names of special tokens in it become these tokens. Throws an InputError if
/// the text is empty, not UTF-8, without a mask or too long for the model.
MaskedText masked_text(const ModelConfig& config, const Tokenizer& tokenizer,
                       std::string_view text);

/// The `top_k` most probable tokens for each mask of each text, without dropout. They are sorted by
/// probability, highest first, then by id. `top_k` is between 1 and the model's vocab_size. The
/// texts are computed by for_each_batch.
std::vector<MaskFills> fill_masks(const Model& model, const Tokenizer& tokenizer,
                                  std::span<const MaskedText> texts, std::int64_t top_k,
                                  std::int64_t batch_size);

/// The same for one text, see masked_text.
MaskFills fill_masks(const Model& model, const Tokenizer& tokenizer, std::string_view text,
                     std::int64_t top_k);

/// The three most probable tokens for each mask of a text. [MASK] in the text means the tokenizer's
/// own mask token. Throws an InputError like fill_masks.
MaskFills sample_fills(const Model& model, const Tokenizer& tokenizer, std::string text);

/// The result as JSON, formatted like json.dumps of the pipeline's result: a list of objects for
/// one mask, or a list of such lists for several masks.
std::string fill_mask_json(const MaskFills& masks);

/// The predictions after one step.
struct FilledMasks {
  std::int64_t step = 0;
  std::vector<MaskFills> texts;  ///< [text][mask][rank]
};

/// The recorded predictions of a run.
struct MaskSamples {
  std::vector<std::string> texts;
  std::vector<FilledMasks> steps;  ///< in the order of the file
  std::string note;                ///< the reason why the record cannot be read; else empty
};

/// A line of mask_samples_file (train/loop/metrics.h) with the predictions for `texts` after one
/// step: {"step": …, "samples": [{"text": …, "masks": [[{"token_str": …, "score": …}, …], …]}, …]}.
std::string mask_samples_line(const std::vector<std::string>& texts, const FilledMasks& filled);

/// Reads the recorded predictions of a run. If the texts changed during the run, only the records
/// of the last texts are returned. The result is empty if there is no record, and has only a note
/// and the text "[MASK]" if it is damaged. An incomplete last line is ignored.
MaskSamples read_mask_samples(const std::filesystem::path& run_dir);

}  // namespace nystrom
