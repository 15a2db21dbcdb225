// Arbitrary files as a run folder: settings, metrics, log, and a checkpoint's manifest and state.
// Only InputError may be thrown, and accepted files survive writing and reading.
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "tests/fuzz/input_files.h"
#include "train/loop/metrics.h"
#include "train/report/run_history.h"
#include "train/state/checkpoint.h"
#include "train/state/run_folder.h"
#include "train/state/run_state.h"

namespace {

namespace fs = std::filesystem;

void read_state(const fs::path& file) {
  const auto state = nystrom::RunState::read(file);
  state.next_batch();
  const std::string first = state.to_json();
  std::ofstream(file, std::ios::binary) << first;
  if (nystrom::RunState::read(file).to_json() != first) std::abort();
}

void read_record(const fs::path& folder) {
  nystrom::RunHistory run = nystrom::read_run_history(folder);
  if (const auto* best = run.best(); best && !best->metrics.contains(run.metric_name()))
    std::abort();
  run.config.run_dir = folder;
  nystrom::write_settings(run.config, nystrom::read_saved_run(folder));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static nystrom::testing::InputFolder folder{"config.yaml",
                                              "metrics.jsonl",
                                              "log.txt",
                                              "checkpoints/step-1/MANIFEST.json",
                                              "checkpoints/step-1/state.json",
                                              "checkpoints/step-1/a",
                                              "checkpoints/step-2/MANIFEST.json"};
  static nystrom::Log log(true);
  folder.fill({reinterpret_cast<const char*>(data), size});
  std::vector<std::string> passed_over;
  nystrom::newest_checkpoint(folder.path() / "checkpoints", passed_over);
  try {
    read_record(folder.path());
  } catch (const nystrom::InputError&) {
  }
  try {
    nystrom::RecordFile(folder.path() / "metrics.jsonl", log, 2);
    read_state(nystrom::checkpoint_path(folder.path() / "checkpoints", 1) / "state.json");
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
