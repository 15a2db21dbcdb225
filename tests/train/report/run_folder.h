// Run folders for the tests of reports, and helpers to look at pages.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/says.h"
#include "tests/support/start_defaults.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config_io.h"
#include "train/report/report_page.h"

namespace nystrom::testing {

namespace fs = std::filesystem;

inline constexpr const char* records =
    R"({"step":1,"loss":5.0,"learning_rate":0.001,"grad_norm":2.0,)"
    R"("tokens_per_second":100.0,"peak_memory_bytes":2e9})"
    "\n"
    R"({"step":2,"loss":null,"learning_rate":0.002,"grad_norm":1.0,)"
    R"("tokens_per_second":300.0,"peak_memory_bytes":2e9})"
    "\n"
    R"({"step":2,"validation_loss":4.5,"validation_accuracy":0.25})"
    "\n"
    R"({"step":3,"loss":4.0,"learning_rate":0.001,"grad_norm":1.0,)"
    R"("tokens_per_second":200.0,"peak_memory_bytes":3e9})"
    "\n"
    R"({"step":3,"validation_loss":4.75,"validation_accuracy":0.5})"
    "\n";

/// Writes a run folder without checkpoints.
inline fs::path write_run(
    const TemporaryFolder& folder, const std::string& name, const std::string& metrics = records,
    const std::string& options = "training: {steps: 3}\nschedule: {warmup_steps: 1}\n") {
  const fs::path run = folder / name;
  write_bytes(run / "config.yaml", to_yaml(parse_config(options, "run.yaml", start_defaults)));
  if (!metrics.empty()) write_bytes(run / "metrics.jsonl", metrics);
  return run;
}

inline std::string page_of(const fs::path& run) { return run_page(read_run_history(run), {}, {}); }

inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace nystrom::testing
