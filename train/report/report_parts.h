// Parts that the page of one run and the page of several share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/report/run_history.h"

namespace nystrom {

/// `content` under a heading; empty without content.
std::string html_section(const char* title, const std::string& content);

/// The state of a run: "step 3 of 9, stopped early".
std::string state_of(const RunHistory& run);
/// The median of tokens per second; NaN without records.
double speed_of(const RunHistory& run);
/// The largest value of a metric; NaN without values.
double largest_of(const RunHistory& run, const char* metric);

/// One box with the notes and warnings of all runs; empty without any. Equal ones stand there once,
/// with their count. With several runs each begins with the name of its run, unless all have it.
std::string html_notes(const std::vector<RunHistory>& runs);

/// The value of an option in a list of options; "–" without it.
std::string option_in(const std::vector<std::pair<std::string, std::string>>& options,
                      const std::string& key);

}  // namespace nystrom
