#include "train/plan/step_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "core/check.h"
#include "core/cuda/runtime.h"
#include "train/loop/train_step.h"

namespace nystrom {
namespace {

// Large products reach 62 % of the peak, and 3×TF32 40 % of a third of TF32's. A streaming
// multiprocessor issues 4 warp instructions a cycle; 80 % of them are assumed.
constexpr std::array<GpuRates, 2> known_gpus{{
    {"h200", 4.2e12, 2.3e12, 2.5e12, 3.6e12, 620e12, 306e12, 45e12, 66e12, 346e12, 23.7e12, 0.6e-6,
     2e-6, 1e-6, 6e-6},
    {"h100", 2.9e12, 1.9e12, 2.1e12, 2.6e12, 620e12, 306e12, 45e12, 66e12, 346e12, 23.7e12, 0.6e-6,
     2e-6, 1e-6, 6e-6},
}};

/// Finds the layer that a kernel's operands belong to.
class Layers {
 public:
  explicit Layers(const ParameterStore& store)
      : values_(CView(store.values())), gradients_(CView(store.gradients())) {
    for (const Parameter& parameter : store.parameters())
      begins_.emplace_back(store.offset_of(parameter.name()), layer_of_name(parameter.name()));
    std::ranges::sort(begins_);
  }
  /// The layer of the first operand that is a parameter or its gradient; `current` without one.
  std::int64_t of(const KernelCall& call, std::int64_t current) const {
    for (const CView& view : call.views) {
      for (const CView& slab : {values_, gradients_}) {
        const std::int64_t offset = address_of(view) - address_of(slab);
        const std::int64_t size = size_of(slab.dtype);
        if (view && offset >= 0 && offset < slab.numel() * size) return layer_at(offset / size);
      }
    }
    return current;
  }

 private:
  static std::int64_t address_of(const CView& view) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
  }
  static std::int64_t layer_of_name(std::string_view name) {
    constexpr std::string_view path = ".layer.";
    const std::size_t found = name.find(path);
    std::int64_t layer = -1;
    if (found != name.npos)
      std::from_chars(name.data() + found + path.size(), name.data() + name.size(), layer);
    return layer;
  }
  std::int64_t layer_at(std::int64_t offset) const {
    const auto next = std::ranges::upper_bound(begins_, offset, {},
                                               &std::pair<std::int64_t, std::int64_t>::first);
    return std::prev(next)->second;
  }

  CView values_, gradients_;
  std::vector<std::pair<std::int64_t, std::int64_t>> begins_;
};

/// Records the outermost kernels while it lives.
class Recorder {
 public:
  explicit Recorder(const ParameterStore& store) : layers_(store) {
    require(active == nullptr, "one step is recorded at a time");
    active = this;
    set_kernel_observer(&observe);
  }
  ~Recorder() {
    set_kernel_observer(nullptr);
    active = nullptr;
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  std::vector<StepOp> take() { return std::move(ops_); }

 private:
  static void observe(const KernelCall& call, bool begin) { active->see(call, begin); }
  void see(const KernelCall& call, bool begin) {
    if (call.views.empty()) return;
    if (begin) {
      if (depth_++ == 0) before_ = cuda::launches();
      return;
    }
    if (--depth_ > 0 || on_cpu(call)) return;
    layer_ = layers_.of(call, layer_);
    const KernelCost cost = kernel_cost(call);
    const bool planned = device_of(call).is_planned();
    ops_.push_back(
        {op_name(call), layer_, cost, planned ? cost.launches : cuda::launches() - before_});
  }
  static Device device_of(const KernelCall& call) {
    for (const CView& view : call.views)
      if (view) return view.device;
    return cpu_device;
  }
  static bool on_cpu(const KernelCall& call) { return device_of(call).is_cpu(); }

  static Recorder* active;
  Layers layers_;
  std::vector<StepOp> ops_;
  std::int64_t layer_ = -1, before_ = 0;
  int depth_ = 0;
};

Recorder* Recorder::active = nullptr;

}  // namespace

const GpuRates& rates_of_gpu(const std::string& name) {
  for (const GpuRates& gpu : known_gpus)
    if (name == gpu.name) return gpu;
  throw InputError(
      fmt::format("no rates are known of a GPU called {}; expected h200 or h100", name));
}

StepPlan record_step(const BenchOptions& options) {
  const BenchRun run(options);
  Arena::of(options.device).reset_peak();
  StepPlan plan;
  Recorder recorder(run.model().parameters());
  run.step(0);
  plan.ops = recorder.take();
  plan.peak_memory_bytes = Arena::of(options.device).statistics().peak_in_use_bytes;
  return plan;
}

double seconds_of(const KernelCost& cost, const GpuRates& gpu) {
  if (cost.launches == 0) return 0;
  const auto rate = [&] {
    switch (cost.engine) {
      case Engine::none: return std::numeric_limits<double>::infinity();
      case Engine::product16: return gpu.product16;
      case Engine::product_tf32: return gpu.product_tf32;
      case Engine::product_f32: return gpu.product_f32;
      case Engine::tf32x3: return gpu.tf32x3;
      case Engine::tiles16: return gpu.tiles16;
    }
    return 0.0;
  };
  const double tiles = cost.loads_ahead ? gpu.ahead_memory : gpu.tile_memory;
  const double wide = cost.engine == Engine::tiles16 ? tiles : gpu.memory;
  const double memory =
      (cost.bytes - cost.narrow_bytes) / wide + cost.narrow_bytes / gpu.narrow_memory;
  const auto launches = static_cast<double>(cost.launches);
  const double work = std::max({memory, cost.flops / rate(), cost.instructions / gpu.instructions});
  return std::max(work, launches * gpu.shortest) + cost.serial_loads * gpu.load_latency +
         launches * gpu.gap;
}

PlanSummary summarise(const StepPlan& plan, std::int64_t layers, const GpuRates& rates) {
  PlanSummary summary;
  std::map<std::pair<int, std::string>, PlanRow> rows;
  const std::int64_t middle = layers / 2 < layers - 1 ? layers / 2 : 0;
  static constexpr const char* places[] = {"a layer", "last layer", "outside"};
  for (const StepOp& op : plan.ops) {
    const double seconds = seconds_of(op.cost, rates);
    summary.launches += op.launches;
    summary.gpu_seconds += seconds;
    const int place = op.layer < 0 ? 2 : op.layer == layers - 1 ? 1 : 0;
    if (place == 0 && op.layer != middle) continue;
    if (place == 0) summary.launches_of_layer += op.launches;
    PlanRow& row = rows[{place, op.name}];
    row.place = places[place];
    row.op = op.name;
    ++row.calls;
    row.launches += op.launches;
    row.bytes += op.cost.bytes;
    row.flops += op.cost.flops;
    row.seconds += seconds;
  }
  summary.host_seconds = static_cast<double>(summary.launches) * rates.host;
  for (auto& [key, row] : rows) summary.rows.push_back(std::move(row));
  std::ranges::stable_sort(summary.rows, [](const PlanRow& a, const PlanRow& b) {
    return std::tuple(a.place != places[0], a.place != places[1], -a.seconds) <
           std::tuple(b.place != places[0], b.place != places[1], -b.seconds);
  });
  return summary;
}

}  // namespace nystrom
