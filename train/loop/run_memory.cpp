#include "train/loop/run_memory.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/control_groups.h"
#include "core/check.h"
#include "nn/model.h"
#include "train/distributed/gradient_sum.h"
#include "train/optim/optimizer.h"

namespace nystrom {

SlabRange largest_range(const RunConfig& config, const ParameterStore& store, int devices) {
  SlabRange largest{0, store.slab_size()};
  if (config.training.zero == 0) return largest;
  const auto bounds =
      slab_bounds(store.slab_size(), devices, undivided_ranges(store, config.optimizer));
  largest.end = 0;
  for (std::size_t r = 1; r < bounds.size(); ++r)
    if (bounds[r] - bounds[r - 1] > largest.size()) largest = {bounds[r - 1], bounds[r]};
  return largest;
}

FixedMemory fixed_memory(const RunConfig& config, const ParameterStore& store, int devices,
                         const std::optional<ModelConfig>& teacher) {
  const TrainingConfig& training = config.training;
  const std::int64_t exact = size_of(accumulate_dtype(training.dtype)),
                     elements = store.slab_size(), slab = elements * exact,
                     own = largest_range(config, store, devices).size() * exact;
  FixedMemory memory;
  memory.weights = elements * size_of(training.dtype);
  memory.masters = is_half(training.dtype) ? own : 0;
  // One device adds gradients as they arrive. Several devices keep theirs until the ordered sum.
  const std::int64_t together = training.micro_batch_size * devices;
  const std::int64_t kept = devices == 1 ? 1 : (training.batch_size + together - 1) / together;
  memory.gradients = slab * (training.deterministic ? 1 + kept : 1);
  memory.optimizer =
      Optimizer::state_slabs * own + (config.optimizer.name == OptimizerKind::lamb ? slab : 0);
  memory.average = training.ema ? own : 0;
  if (config.distillation.teacher)
    memory.teacher = teacher ? Model(*teacher).parameters().slab_size() * size_of(training.dtype)
                             : memory.weights;
  memory.communication = devices > 1 ? std::min(slab, GradientSumOptions{}.bucket * exact) : 0;
  if (devices > 1 && training.reduction == Reduction::bf16)
    memory.communication += elements * size_of(DType::bf16);
  return memory;
}

std::int64_t machine_memory() {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? std::min(pages * page, memory_limit_bytes()) : 0;
}

void require_memory(const RunConfig& config, Device device, int processes,
                    const std::optional<ModelConfig>& teacher) {
  const std::int64_t there = machine_memory();
  if (!device.is_cpu() || there == 0) return;
  const Model model(config.model);
  const std::int64_t needed = fixed_memory(config, model.parameters(), processes, teacher).total();
  require_input(needed <= there,
                "the model's {} parameters need {} in training, and this machine has {}; choose a "
                "smaller model, or training.dtype bf16",
                model.parameters().count(), memory_text(static_cast<double>(needed)),
                memory_text(static_cast<double>(there)));
}

std::string memory_text(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} KB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6)
                     : fmt::format("{:.2f} GB", bytes / 1e9);
}

}  // namespace nystrom
