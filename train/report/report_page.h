// HTML pages about one run or several. A page is a single file that needs no network.
#pragma once

#include <string>
#include <vector>

#include "core/base/log.h"
#include "train/objectives/fill_mask.h"
#include "train/objectives/sweep.h"
#include "train/report/run_history.h"
#include "train/report/study.h"
#include "train/report/task_findings.h"

namespace nystrom {

/// Predicts the masks in `texts` with the best checkpoint of a run and, for small models, with
/// every other intact one. Without a usable checkpoint the result is a note. Throws an InputError
/// for a text without valid masks.
MaskSamples sample_masks(const RunHistory& run, const std::vector<std::string>& texts, Log& log);

/// The page of one run. `findings` are empty for masked language models.
std::string run_page(const RunHistory& run, const MaskSamples& samples, const StudyFindings& study,
                     const TaskFindings& findings = {});

/// The page that compares several runs: curves in one chart, best metrics, and settings that
/// differ. `sweep` is the sweep that they belong to; without points there is none.
std::string comparison_page(const std::vector<RunHistory>& runs, const SweepResult& sweep);

/// The page that compares the existing runs of a sweep's folder. Throws an InputError when
/// summary.json of `folder` does not belong to a sweep.
std::string sweep_page(const std::filesystem::path& folder);

}  // namespace nystrom
