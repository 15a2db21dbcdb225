// Mask samples: the predictions of a masked language model for a few texts during training. The run
// records them at each evaluation, and the report shows them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/objectives/fill_mask.h"

namespace nystrom {

/// The predictions after one step.
struct FilledMasks {
  std::int64_t step = 0;
  std::vector<std::vector<std::vector<MaskFill>>> texts;  ///< [text][mask][rank]
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
