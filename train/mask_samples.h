// How a masked language model fills a few masks as it learns: recorded by its run at each evaluation, shown by its report.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/fill_mask.h"

namespace nystrom {

/// What the weights of one step put in the places of masks: a list a text, of a list a mask.
struct FilledMasks {
  std::int64_t step = 0;
  std::vector<std::vector<std::vector<MaskFill>>> texts;
};

/// What a masked language model makes of a few texts, step by step.
struct MaskSamples {
  std::vector<std::string> texts;
  std::vector<FilledMasks> steps;  ///< in their order
  std::string note;                ///< why there are none
};

/// The name of a run's file of them.
inline constexpr const char* mask_samples_file = "fill-masks.jsonl";

/// The three likeliest words for each mask of a text in which [MASK] stands for the tokenizer's own. InputError as fill_masks.
std::vector<std::vector<MaskFill>> sample_fills(const Model& model, const Tokenizer& tokenizer, std::string text);

/// A line of that file, of what the weights of `step` make of `texts`: {"step": …, "samples": [{"text": …, "masks": [[{"token_str": …,
/// "score": …}, …], …]}, …]}. Texts that the model cannot take, too long ones above all, are left out.
std::string sample_line(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& texts, std::int64_t step);

/// What a run recorded; of texts that changed on the way the last ones. Nothing where there is no such file, and a note where it cannot be
/// read. A last line without an end is passed over.
MaskSamples read_mask_samples(const std::filesystem::path& run_dir);

}  // namespace nystrom
