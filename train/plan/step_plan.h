// What a training step consists of on a GPU: its kernels op by op, and a model of their time.
#pragma once

#include <string>
#include <vector>

#include "train/plan/bench.h"
#include "train/plan/kernel_cost.h"

namespace nystrom {

/// The rates that a plan assumes of a GPU. They are assumptions, not measurements.
struct GpuRates {
  const char* name;
  double memory;         ///< bytes a second of kernels that access 16 bytes a thread
  double narrow_memory;  ///< … of kernels that access fewer
  double tile_memory;    ///< … of kernels that wait for tiles before they compute
  double ahead_memory;   ///< … of kernels that load tiles while they compute others
  double product16;      ///< FLOP/s of large products in bf16 and f16
  double product_tf32, product_f32;
  double tf32x3;        ///< FLOP/s of products that are three products in TF32
  double tiles16;       ///< FLOP/s of attention's and the convolution's products (mma.sync)
  double instructions;  ///< of single threads, a second
  double load_latency;  ///< seconds of a load from memory
  double shortest;      ///< seconds of the shortest kernel
  double gap;           ///< seconds between two kernels
  double host;          ///< seconds that the CPU needs for a launch
};

/// The rates of "h200" or "h100". Throws an InputError for another name.
const GpuRates& rates_of_gpu(const std::string& name);

/// A call of a kernel in a step.
struct StepOp {
  std::string name;    ///< the kernel, and for products and sums their size
  std::int64_t layer;  ///< −1: outside of the layers
  KernelCost cost;
  std::int64_t launches;  ///< those counted; on a planned GPU those of the cost
};

/// The kernels of one training step of `options`, in order. On a planned GPU nothing is computed.
struct StepPlan {
  std::vector<StepOp> ops;
  std::int64_t peak_memory_bytes = 0;  ///< of live tensors
};

/// Runs one training step on options.device and records its kernels. With activation
/// checkpointing, the repeated forward pass of a layer belongs to the layer.
StepPlan record_step(const BenchOptions& options);

/// The predicted seconds of a call.
double seconds_of(const KernelCost& cost, const GpuRates& rates);

/// Equal ops of a place added up. The places are "a layer" (one in the middle, as all but the last
/// are equal), "last layer" and "outside".
struct PlanRow {
  std::string place, op;
  std::int64_t calls = 0, launches = 0;
  double bytes = 0, flops = 0, seconds = 0;
};

/// The predicted step.
struct PlanSummary {
  std::vector<PlanRow> rows;  ///< the longest of each place first
  std::int64_t launches = 0, launches_of_layer = 0;
  double gpu_seconds = 0;   ///< kernels and gaps
  double host_seconds = 0;  ///< of the CPU; the step takes the larger of both
  double step_seconds() const { return gpu_seconds > host_seconds ? gpu_seconds : host_seconds; }
};

/// Adds up a plan.
PlanSummary summarise(const StepPlan& plan, std::int64_t layers, const GpuRates& rates);

}  // namespace nystrom
