// The report of `nystrom check`: the facts about a planned run, and their output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/objectives/corpus_statistics.h"
#include "train/objectives/finetune.h"
#include "train/plan/memory_plan.h"

namespace nystrom {

/// The memory that a run needs, and the duration of its steps.
struct Fit {
  MemoryPlan plan;
  int devices = 1;
  bool elsewhere = false;               // whether `memory` is that of --memory, not of this machine
  std::optional<std::int64_t> memory;   // bytes that there are, if known
  std::optional<std::int64_t> largest;  // micro-batch that fits into them
  std::optional<StepTime> time;
};

/// The facts about a planned run.
struct CheckReport {
  RunConfig config;
  std::int64_t parameters = 0;
  std::optional<std::int64_t> sequences;  // of the training data; unknown before tokenization
  std::optional<CorpusStatistics> data;
  std::vector<std::string> task;  // what the task's data is like; empty if it was not read
  std::optional<Fit> fit;
  std::vector<std::string> warnings;
};

/// The report as one JSON object, for programs.
std::string report_json(const CheckReport& report);

/// Prints the report for people.
void print(const CheckReport& report);

}  // namespace nystrom
