// How good an exported model is on real text, in each program that runs it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "train/export/export.h"
#include "train/state/model_folder.h"

namespace nystrom {

/// The results of one runtime on the same data.
struct RuntimeScore {
  std::string runtime;  ///< "nystrom", "transformers", "ONNX int8"
  double loss = 0;      ///< mean over the targets
  std::string metric;   ///< "accuracy" of masked tokens; the task's metric, if not its loss
  double value = 0;     ///< of `metric`
  /// The share of targets whose top prediction is nystrom's; nothing for numbers.
  std::optional<double> agreement;
};

/// The scores of all runtimes, nystrom first.
struct ExportScores {
  std::string data;          ///< the files, for people
  std::int64_t targets = 0;  ///< masked tokens, or examples
  std::vector<RuntimeScore> runtimes;
};

/// Scores the exported model at `folder`. For a folder that names transformers' own class,
/// transformers is computed by this program in semantics transformers, every row padded as there.
/// For a folder with an int8 file this program rounds as that file does, one sequence after the
/// other.
using ExportScoring = std::function<ExportScores(const std::filesystem::path& folder, Log& log)>;

/// Reads the data that an export of `source` with `options` is scored on, before the folder is
/// written: a mistake in it leaves no folder behind. The data are the files that `text` matches,
/// read as `overrides` of data say; without any, the validation data of `source`'s run. At most 64
/// sequences of a text are taken, and all examples of a task. Empty if there are no such data, or
/// if the model has no head to score. Throws an InputError for files that do not match or cannot be
/// read, and for a data.sequence_length beyond the rows of transformers' own class, if that is
/// measured.
ExportScoring export_scoring(const ModelFolder& source, const ExportOptions& options,
                             const std::vector<std::string>& text,
                             const std::vector<std::string>& overrides, Log& log);

}  // namespace nystrom
