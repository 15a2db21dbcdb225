// HTML pages about one run or several. A page is a single file that needs no network.
#pragma once

#include <string>
#include <vector>

#include "train/logging/log.h"
#include "train/pretrain/mask_samples.h"
#include "train/report/run_record.h"
#include "train/report/study.h"

namespace nystrom {

/// Predicts the masks in `texts` with the best checkpoint of a run and, for small models, with
/// every other intact one. Without a usable checkpoint the result is a note. Throws an InputError
/// for a text without valid masks.
MaskSamples sample_masks(const RunRecord& run, const std::vector<std::string>& texts, Log& log);

/// Pictures and sentences of a study, from the folder `approximation` of a run.
struct StudyFindings {
  std::vector<std::string> verdict;
  std::vector<std::string> pictures;  ///< complete SVG documents
};
/// Reads the results of `nystrom approximation … --output RUN/approximation`; empty without that
/// folder. Throws an InputError when they are damaged.
StudyFindings read_study(const std::filesystem::path& run_dir);

/// The page of one run.
std::string run_report(const RunRecord& run, const MaskSamples& samples,
                       const StudyFindings& study);

/// The page that compares several runs: curves in one chart, best metrics, and settings that
/// differ. `sweep` holds the points of a sweep; without one it has no columns.
std::string comparison_report(const std::vector<RunRecord>& runs, const StudyTable& sweep);

/// A sweep's folder: its existing runs, and a table of its points.
struct SweepRecord {
  std::vector<RunRecord> runs;
  StudyTable points;
};
/// Reads a sweep. Throws an InputError when summary.json of `folder` does not belong to a sweep.
SweepRecord read_sweep(const std::filesystem::path& folder);

}  // namespace nystrom
