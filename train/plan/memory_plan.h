// Estimates of a run's memory on each device, by part, of the operations of a step, and of its
// time. Activations are counted, not modelled: steps of one sequence and of two pass over a planned
// GPU, which computes nothing, and their memory is extrapolated linearly in that number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/config.h"
#include "train/loop/run_memory.h"

namespace nystrom {

/// Bytes of the activations of b samples: rest[0] + rest[1] · b, plus layer[0] + layer[1] · b for
/// each layer.
struct Activations {
  double rest[2] = {}, layer[2] = {};
};

/// Bytes on each device.
struct MemoryPlan : Activations {
  FixedMemory fixed = {};
  std::int64_t layers = 0;
  /// Temporaries of the optimizer's step, which begins when the activations are gone.
  std::int64_t update = 0;
  /// The largest number of samples of a step that a device has. No more are in its micro-batches;
  /// an evaluation takes micro-batches as they are.
  std::int64_t share = std::numeric_limits<std::int64_t>::max();
  /// Bytes that each of many devices sends in a step: to add up gradients (reduced), and with zero
  /// to distribute the weights (shared).
  std::int64_t reduced = 0, shared = 0;
  double flops = 0;  ///< operations of a step on the device with the largest share of it
  /// The part of a device's operations that can hide communication: the last backward pass.
  double last_backward = 0;

  std::int64_t activations(std::int64_t micro_batch) const;
  /// Those among them that are of layers.
  std::int64_t activations_of_layers(std::int64_t micro_batch) const;
  std::int64_t update_beyond_activations(std::int64_t micro_batch) const {
    return std::max<std::int64_t>(0, update - activations(micro_batch));
  }
  std::int64_t total(std::int64_t micro_batch) const {
    return fixed.total() + activations(micro_batch) + update_beyond_activations(micro_batch);
  }
  /// The largest number of samples that fit into `memory`, up to `limit`; 0 if one does not fit.
  std::int64_t largest_micro_batch(std::int64_t memory, std::int64_t limit) const;
};

/// The number of sequences that the model reads for a sample of the run. Where one column holds a
/// list of choices, the labels tell how many; without them it is 2, and describe() says so.
std::int64_t sequences_of_sample(const RunConfig& config);

/// The run with the outputs that its task and its columns tell without their files.
RunConfig with_labels(RunConfig config);
/// Whether the files of a task tell how many labels it has; a model has two until they are read.
bool lists_labels(const RunConfig& config);

/// Makes the plan for `devices` devices. Takes neither time nor memory to speak of, whatever the
/// size of the run. A task has the labels that it or the model names, else two, and describe() says
/// so. A teacher of unknown shape has the model's.
MemoryPlan plan_memory(const RunConfig& given, int devices,
                       const std::optional<ModelConfig>& teacher = {});

/// The plan as bytes by name, with their sum, for programs.
std::vector<std::pair<std::string, std::int64_t>> bytes_by_part(const MemoryPlan& plan,
                                                                std::int64_t micro_batch);

/// Estimated seconds of a step.
struct StepTime {
  /// By a ring: adding up gradients and distributing weights.
  double communication = 0;
  /// Nothing if the speed of the devices is unknown.
  std::optional<double> computation;
  /// Computation, and the communication that the last micro-batch's backward pass does not hide.
  std::optional<double> step;
};
/// Estimates the time. `bandwidth` is in bytes a second, in and out of each device; `speed` is the
/// actual speed of each device in operations a second.
StepTime plan_time(const MemoryPlan& plan, int devices, double bandwidth,
                   std::optional<double> speed);

/// Operations of the matrix products; a multiply-add counts as two.
struct StepFlops {
  double layers, head;  ///< forward pass; that of embeddings or features counts as of layers
  double forward() const { return layers + head; }
  /// Operations of the backward pass: twice the forward pass, and with checkpointing the layers'
  /// forward pass once more.
  double backward(bool checkpointing = false) const {
    return 2 * forward() + (checkpointing ? layers : 0);
  }
};
/// The operations for `sequences` sequences of `length` tokens. `predicted` is the share of tokens
/// for which a masked language model computes its last dense layers and logits. Heads with labels
/// count nothing but gated pooling, and their last layer as all others. The last layer counts with
/// all its queries, as GPUs compute it. A generator counts too.
StepFlops step_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                     double predicted);

/// "80G", "512M", "1.5T" as numbers (powers of 1000). Throws an InputError for other words.
std::int64_t parse_amount(const std::string& option, const std::string& text);

/// The plan as text, one line a part.
std::vector<std::string> describe(const MemoryPlan& plan, const RunConfig& config, int devices);

}  // namespace nystrom
