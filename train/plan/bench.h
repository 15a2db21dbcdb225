// Timing of steps on random tokens, for `nystrom bench`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "nn/model.h"
#include "train/optim/loss_scale.h"
#include "train/optim/optimizer.h"

namespace nystrom {

/// The model and the steps of a benchmark.
struct BenchOptions {
  std::int64_t layers = 12, hidden = 768, heads = 12, landmarks = 64, length = 512, batch = 4,
               vocab = 30000, conv = 33, warmup = 0, steps = 5;
  bool train = true;
  Head head = Head::masked_lm;  ///< without training: of the forward pass
  DType dtype = DType::f32;
  AttentionKind attention = AttentionKind::nystrom;
  bool activation_checkpointing = false;
  bool profile = false;
  bool products = false;  ///< also time the algorithms that cuBLASLt offers; GPUs only
  std::vector<std::string> overrides = {};  ///< other options of the model, "model.norm=pre"
  Device device;
};

/// The measurements of a benchmark.
struct BenchResult {
  std::vector<double> step_seconds, losses;  ///< losses are empty without training
  double median_step_seconds = 0, tokens_per_second = 0;
  /// The largest memory of live tensors.
  std::int64_t peak_memory_bytes = 0;
  /// The bytes of the arena at the end, in use or for reuse.
  std::int64_t reserved_memory_bytes = 0;
  double flops_per_step = 0;  ///< of the matrix products, counted from the model's shape
  /// Operations a second of the feed-forward layer's product alone, on random numbers, after the
  /// steps: the best of a few.
  double product_flops_per_second = 0;
  /// Bytes a second that a copy of the feed-forward layer's activations reads and writes, likewise.
  double copy_bytes_per_second = 0;
  /// Calls and seconds of each kernel in a step, largest first; products by their sizes. With
  /// profile only: `steps` more steps, which on a GPU wait after each kernel.
  struct KernelTime {
    std::string name;
    double calls = 0, seconds = 0;
  };
  std::vector<KernelTime> kernels;
  int threads = 0;
  std::string cpu_level;

  /// The time that the step's products would take at that rate, over the step's: 1 is the limit.
  double share_of_limit() const {
    return flops_per_step / product_flops_per_second / median_step_seconds;
  }
};

/// A model with its optimizer and a batch of random tokens, ready for steps.
class BenchRun {
 public:
  /// Throws an InputError for a model that cannot be built.
  explicit BenchRun(const BenchOptions& options);
  /// Runs one step and returns its loss; 0 without training.
  double step(std::uint64_t number);
  const Model& model() const { return model_; }

 private:
  BenchOptions options_;
  Model model_;
  Batch batch_;
  std::optional<Optimizer> optimizer_;
  std::optional<LossScale> scale_;
};

/// Runs `warmup` steps that do not count, and `steps` that do. Throws an InputError for a model
/// that cannot be built.
BenchResult run_bench(const BenchOptions& options);

}  // namespace nystrom
