// How much memory a run takes on each device, by part, and how long a step. Activations are
// measured, not modelled: a step of one or two layers and sequences runs here, and what it takes
// grows in proportion to both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/config.h"

namespace nystrom {

/// Bytes on one of several devices.
struct MemoryPlan {
  std::int64_t weights = 0;    ///< in the type of the computation
  std::int64_t masters = 0;    ///< the exact copy under bf16 and f16
  std::int64_t gradients = 0;  ///< with deterministic also those of single micro-batches
  std::int64_t optimizer =
      0;                     ///< moments, of the device's range with zero; of LAMB also the updates
  std::int64_t average = 0;  ///< of training.ema
  std::int64_t communication = 0;  ///< of the library that adds up gradients
  std::int64_t layers = 0;
  /// Activations of b sequences: rest[0] + rest[1] · b, and in each layer layer[0] + layer[1] · b.
  double rest[2] = {}, layer[2] = {};
  /// What each of many devices sends in a step: to add up gradients, and with zero to bring the
  /// weights to all.
  std::int64_t reduced = 0, shared = 0;
  double flops = 0;          ///< operations of a step, of all devices
  double last_backward = 0;  ///< the part of a device's operations behind which its communication
                             ///< can hide: the last backward's

  std::int64_t fixed() const {
    return weights + masters + gradients + optimizer + average + communication;
  }
  std::int64_t activations(std::int64_t micro_batch) const;
  std::int64_t total(std::int64_t micro_batch) const { return fixed() + activations(micro_batch); }
  /// The most sequences that fit into `memory`, but not more than `limit`; 0 when one does not.
  std::int64_t largest_micro_batch(std::int64_t memory, std::int64_t limit) const;
};

/// For `devices` devices. Runs steps of a small part of the model on the CPU, for seconds, in bf16
/// in the place of f16. A task is taken for its encoder.
MemoryPlan plan_memory(const RunConfig& config, int devices);

/// The plan for programs: bytes by name, with their sum.
std::vector<std::pair<std::string, std::int64_t>> bytes_by_part(const MemoryPlan& plan,
                                                                std::int64_t micro_batch);

/// Seconds of a step.
struct StepTime {
  double communication = 0;  ///< by a ring: gradients are added up, and weights brought to all
  std::optional<double> computation;  ///< where the speed of the devices is known …
  std::optional<double> step;  ///< … with what of the communication does not hide behind the last
                               ///< micro-batch's backward
};
/// At `bandwidth` bytes a second in and out of each device; `speed` is what each really does,
/// operations a second.
StepTime plan_time(const MemoryPlan& plan, int devices, double bandwidth,
                   std::optional<double> speed);

/// "80G", "512M", "1.5T" as numbers (powers of 1000). InputError for other words.
std::int64_t parse_amount(const std::string& option, const std::string& text);

/// "12.5 KB", "512.0 MB", "80.00 GB".
std::string memory_text(double bytes);

/// The plan for people, a line a part.
std::vector<std::string> describe(const MemoryPlan& plan, const RunConfig& config, int devices);

}  // namespace nystrom
