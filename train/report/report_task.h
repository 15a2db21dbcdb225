// The predictions of a fine-tuned model, as HTML.
#pragma once

#include <string>

#include "train/report/task_findings.h"

namespace nystrom {

/// The confusions, the calibration and the most wrong predictions. Empty without findings.
std::string html_findings(const TaskFindings& findings);

}  // namespace nystrom
