// How a masked language model fills a few masks as it learns: recorded by its run at each
// evaluation, shown by its report.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/pretrain/fill_mask.h"

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

/// A line of that file, of what the weights of a step make of `texts`: {"step": …, "samples":
/// [{"text": …, "masks": [[{"token_str": …, "score": …}, …], …]}, …]}.
std::string mask_samples_line(const std::vector<std::string>& texts, const FilledMasks& filled);

/// What a run recorded; of texts that changed on the way the last ones. Nothing where there is no
/// such file, and a note where it cannot be read. A last line without an end is passed over.
MaskSamples read_mask_samples(const std::filesystem::path& run_dir);

}  // namespace nystrom
