// Timed steps on random tokens: what `nystrom bench` prints.
#pragma once

#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "nn/model_config.h"

namespace nystrom {

struct BenchOptions {
  std::int64_t layers = 12, hidden = 768, heads = 12, landmarks = 64, length = 512, batch = 4,
               vocab = 30000, conv = 33, steps = 5;
  bool train = true;
  DType dtype = DType::f32;
  AttentionKind attention = AttentionKind::nystrom;
  bool profile = false;
  Device device;
};

struct BenchResult {
  std::vector<double> step_seconds, losses;  ///< forward has no losses
  double median_step_seconds = 0, tokens_per_second = 0;
  std::int64_t peak_memory_bytes =
      0;  ///< largest resident size of the process; on a GPU, most memory of live tensors
  double flops_per_step = 0;  ///< of the matrix products, counted from the model's shape
  std::vector<std::pair<std::string, double>>
      kernel_seconds;  ///< all steps together, largest first; with profile only, which on a GPU
                       ///< waits after each
  int threads = 0;
  std::string cpu_level;
};

/// Runs `steps` steps, the first included. InputError for a model that cannot be built.
BenchResult run_bench(const BenchOptions& options);

}  // namespace nystrom
