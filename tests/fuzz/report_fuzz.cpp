// Arbitrary files as inputs of a report: a sweep's runs and summary, filled masks, a study. The
// result is a page or an InputError, and filled masks survive writing and reading.
#include <cstdlib>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "tests/fuzz/input_files.h"
#include "train/loop/metrics.h"
#include "train/objectives/fill_mask.h"
#include "train/report/report_page.h"

namespace {

std::string lines_of(const nystrom::MaskSamples& samples) {
  std::string lines;
  for (const auto& step : samples.steps)
    lines += nystrom::mask_samples_line(samples.texts, step) + "\n";
  return lines;
}

nystrom::MaskSamples read_masks(const std::filesystem::path& run) {
  const auto samples = nystrom::read_mask_samples(run);
  const std::string lines = lines_of(samples);
  std::ofstream(run / nystrom::mask_samples_file, std::ios::binary) << lines;
  if (lines_of(nystrom::read_mask_samples(run)) != lines) std::abort();
  return samples;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static nystrom::testing::InputFolder folder{"summary.json",
                                              "seed-1/config.yaml",
                                              "seed-1/metrics.jsonl",
                                              "seed-1/fill-masks.jsonl",
                                              "seed-1/approximation/a.json",
                                              "seed-1/approximation/a.svg",
                                              "a=1/seed-2/config.yaml",
                                              "a=1/seed-2/metrics.jsonl"};
  folder.fill({reinterpret_cast<const char*>(data), size});
  const auto run_path = folder.path() / "seed-1";
  try {
    nystrom::run_page(nystrom::read_run_history(run_path), read_masks(run_path),
                      nystrom::read_study(run_path));
  } catch (const nystrom::InputError&) {
  }
  try {
    nystrom::sweep_page(folder.path());
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
