// A page that shows a run, or several beside each other: one HTML file that needs no other and no
// network.
#pragma once

#include <string>
#include <vector>

#include "train/logging/log.h"
#include "train/pretrain/mask_samples.h"
#include "train/report/run_record.h"
#include "train/report/study.h"

namespace nystrom {

/// Fills the masks in `texts` by the best checkpoint of a run and, where the model is small, by
/// every other whole one. Without a checkpoint that can be opened there is a note instead.
/// InputError for a text that cannot be filled.
MaskSamples sample_masks(const RunRecord& run, const std::vector<std::string>& texts, Log& log);

/// A study's picture and sentences out of the folder `approximation` of a run.
struct StudyFindings {
  std::vector<std::string> verdict;
  std::vector<std::string> pictures;  ///< whole SVG documents
};
/// What `nystrom approximation … --output RUN/approximation` left; empty without that folder.
/// InputError when it is damaged.
StudyFindings read_study(const std::filesystem::path& run_dir);

/// The page of one run.
std::string run_report(const RunRecord& run, const MaskSamples& samples,
                       const StudyFindings& study);

/// The page that compares several runs: curves in one picture, best metrics, settings that differ.
/// `sweep` holds the points of a sweep, or has no columns.
std::string comparison_report(const std::vector<RunRecord>& runs, const StudyTable& sweep);

/// A sweep's folder: its runs that are there, and a table of its points.
struct SweepRecord {
  std::vector<RunRecord> runs;
  StudyTable points;
};
/// InputError when summary.json of `folder` is none of a sweep.
SweepRecord read_sweep(const std::filesystem::path& folder);

}  // namespace nystrom
