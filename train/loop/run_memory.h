// The memory that a run needs whatever its batch, and the memory that there is.
#pragma once

#include <cstdint>
#include <optional>

#include "core/device.h"
#include "nn/parameter_store.h"
#include "train/config/config.h"

namespace nystrom {

/// Bytes on each device that do not depend on the micro-batch.
struct FixedMemory {
  std::int64_t weights = 0;    ///< in the computation's type
  std::int64_t masters = 0;    ///< f32 copy under bf16 and f16
  std::int64_t gradients = 0;  ///< with deterministic also those of single micro-batches
  /// Moments, with zero only those of the device's range; for LAMB also the updates.
  std::int64_t optimizer = 0;
  std::int64_t average = 0;        ///< for training.ema
  std::int64_t teacher = 0;        ///< its weights
  std::int64_t communication = 0;  ///< buffers of the library that adds up gradients

  std::int64_t total() const {
    return weights + masters + gradients + optimizer + average + teacher + communication;
  }
};

/// The largest range of the slabs that one of `devices` devices updates: all without training.zero.
SlabRange largest_range(const RunConfig& config, const ParameterStore& store, int devices);

/// The memory of the parameters of `store` that train on `devices` devices. A `teacher` of unknown
/// shape has the model's.
FixedMemory fixed_memory(const RunConfig& config, const ParameterStore& store, int devices,
                         const std::optional<ModelConfig>& teacher = {});

/// The bytes of this machine's memory, or of its container's share if that is less. 0 if unknown.
std::int64_t machine_memory();

/// Throws an InputError if one of `processes` processes on CPUs needs more than machine_memory()
/// for its parameters alone. Linux grants memory that it does not have, and ends the process later.
void require_memory(const RunConfig& config, Device device, int processes,
                    const std::optional<ModelConfig>& teacher = {});

/// Formats bytes: "12.5 KB", "512.0 MB", "80.00 GB".
std::string memory_text(double bytes);

}  // namespace nystrom
