#include "train/plan/bench.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <string_view>

#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/dispatch.h"
#include "core/kernels.h"
#include "core/threads.h"
#include "train/config/config_io.h"
#include "train/loop/train_step.h"
#include "train/plan/memory_plan.h"

namespace nystrom {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Waits until the device has completed all queued work.
void finish(Device device) {
  if (!device.is_cpu()) cuda::synchronize(device.index);
}

/// The kernel's name, and for products their sizes.
std::string op_name(const KernelCall& call) {
  if (std::string_view(call.name) == "matmul") {
    const CView &a = call.views[0], &c = call.views[3];
    const std::int64_t batch = c.numel() / std::max<std::int64_t>(1, c.dim(-1) * c.dim(-2));
    return fmt::format("matmul {} {}{}×{}×{}", name_of(a.dtype),
                       batch > 1 ? fmt::format("{}·", batch) : "", c.dim(-2), a.dim(-1), c.dim(-1));
  }
  return call.name;
}

/// The kernels of one of `steps` equal steps, largest first. A kernel that calls others does not
/// have their time.
std::vector<BenchResult::KernelTime> profile(Device device, std::int64_t steps,
                                             const std::function<void()>& step) {
  struct Open {
    Clock::time_point start;
    double others = 0;  ///< seconds of the kernels that it called
  };
  // Records of the observer, which is a plain function.
  static std::map<std::string, BenchResult::KernelTime> times;
  static std::vector<Open> open;
  static Device measured;
  measured = device;
  times.clear();
  set_kernel_observer([](const KernelCall& call, bool begin) {
    finish(measured);
    if (begin) {
      open.push_back({Clock::now()});
      return;
    }
    const double seconds = seconds_since(open.back().start);
    BenchResult::KernelTime& kernel = times[op_name(call)];
    ++kernel.calls;
    kernel.seconds += seconds - open.back().others;
    open.pop_back();
    if (!open.empty()) open.back().others += seconds;
  });
  for (std::int64_t i = 0; i < steps; ++i) step();
  set_kernel_observer(nullptr);
  std::vector<BenchResult::KernelTime> result;
  const auto count = static_cast<double>(steps);
  for (const auto& [name, kernel] : times)
    result.push_back({name, kernel.calls / count, kernel.seconds / count});
  std::ranges::sort(result, std::greater{}, &BenchResult::KernelTime::seconds);
  return result;
}

constexpr std::int64_t mask_token = 4;

ModelConfig model_config(const BenchOptions& o) {
  ModelConfig config;
  config.vocab_size = o.vocab;
  config.hidden_size = o.hidden;
  config.num_hidden_layers = o.layers;
  config.num_attention_heads = o.heads;
  config.intermediate_size = 4 * o.hidden;
  config.max_position_embeddings = config.segment_means_seq_len = o.length;
  config.attention.kind = o.attention;
  config.attention.num_landmarks = o.landmarks;
  config.attention.projected_length = std::min(config.attention.projected_length, o.length);
  config.attention.conv_kernel_size = o.conv > 0 ? std::optional(o.conv) : std::nullopt;
  config.head = o.head;
  override_model(config, "bench", o.overrides);
  require_input(config.vocab_size > mask_token && !config.embed_dim,
                "--set {}: bench reads random tokens, of a vocabulary of at least {}; leave it out",
                config.embed_dim ? fmt::format("model.embed_dim={}", *config.embed_dim)
                                 : fmt::format("model.vocab_size={}", config.vocab_size),
                mask_token + 1);
  return config;
}

/// Random tokens. 15 % of each sequence are masked.
Batch random_batch(const BenchOptions& o, std::int64_t vocab) {
  const std::int64_t chosen = std::max<std::int64_t>(1, (15 * o.length + 50) / 100);
  std::vector<std::int64_t> ids, labels, samples;
  for (std::int64_t b = 0; b < o.batch; ++b) {
    std::vector<std::pair<std::uint32_t, std::int64_t>> order;
    for (std::int64_t t = 0; t < o.length; ++t) {
      const auto words = philox(philox_key(1, static_cast<std::uint64_t>(b)),
                                {{static_cast<std::uint32_t>(t), 0, 0, 0}});
      ids.push_back(2 + words.word[0] % (vocab - 2));
      labels.push_back(ignore_index);
      order.emplace_back(words.word[1], b * o.length + t);
    }
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < chosen; ++i) {
      const auto at = static_cast<std::size_t>(order[static_cast<std::size_t>(i)].second);
      labels[at] = ids[at];
      ids[at] = mask_token;
    }
    samples.push_back(b);
  }
  const Shape shape{o.batch, o.length};
  return {.input = {.input_ids = Tensor::from(ids, shape)},
          .labels = Tensor::from(labels, shape),
          .sample_ids = Tensor::from(samples, {o.batch})};
}

/// Random numbers, which repeat: drawing many takes longer than the product.
Tensor random_tensor(const Shape& shape, const BenchOptions& o) {
  const auto drawn = normal_values(1, "product", std::min<std::int64_t>(shape.numel(), 1 << 20));
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(drawn[i % drawn.size()]);
  return Tensor::from(values, shape).cast(o.dtype).to(o.device);
}

/// The seconds of the fastest of ten runs.
double fastest(Device device, const std::function<void()>& run) {
  double seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) {
    finish(device);
    const auto start = Clock::now();
    run();
    finish(device);
    seconds = std::min(seconds, seconds_since(start));
  }
  return seconds;
}

/// The rates of a product and of a copy alone.
void measure_rates(const BenchOptions& o, const ModelConfig& model, BenchResult& result) {
  const std::int64_t rows = o.batch * o.length, hidden = model.hidden_size,
                     wide = model.intermediate_size;
  const Tensor x = random_tensor({rows, hidden}, o), weight = random_tensor({wide, hidden}, o);
  Tensor y = Tensor::empty({rows, wide}, o.dtype, o.device), copy = empty_like(y);
  result.product_flops_per_second =
      2 * static_cast<double>(rows * hidden * wide) / fastest(o.device, [&] {
        kernels::matmul(x, weight.transpose(0, 1), CView{}, y, false, Precision::full);
      });
  result.copy_bytes_per_second = 2 * static_cast<double>(y.numel() * size_of(o.dtype)) /
                                 fastest(o.device, [&] { kernels::copy(y, copy); });
}

}  // namespace

BenchRun::BenchRun(const BenchOptions& options)
    : options_(options),
      model_(model_config(options)),
      batch_(random_batch(options, model_.config().vocab_size)) {
  ParameterStore& store = model_.parameters();
  store.allocate(options.dtype, options.train ? StoreMode::training : StoreMode::inference,
                 options.device);
  store.initialise(42, model_.config().initializer_range);
  if (options.dtype == DType::f16) scale_.emplace();
  if (options.train) optimizer_.emplace(store, OptimizerOptions{});
}

double BenchRun::step(std::uint64_t number) {
  if (!options_.train) {
    model_(batch_.input);
    return 0;
  }
  StepOptions step_options;
  step_options.clip_norm = 1.0;
  step_options.activation_checkpointing = options_.activation_checkpointing;
  step_options.step = number;
  if (scale_) step_options.loss_scale = scale_->value();
  const StepResult done = train_step(model_, *optimizer_, {&batch_, 1}, step_options);
  if (scale_) scale_->update(!done.skipped);
  return done.loss;
}

BenchResult run_bench(const BenchOptions& options) {
  if (options.products) cuda::time_products();
  Arena::of(options.device).release_cache();
  BenchRun run(options);
  Arena::of(options.device).reset_peak();
  BenchResult result;
  std::uint64_t number = 0;
  for (std::int64_t step = -options.warmup; step < options.steps; ++step) {
    const auto start = Clock::now();
    const double loss = run.step(number++);
    finish(options.device);
    if (step < 0) continue;
    if (options.train) result.losses.push_back(loss);
    result.step_seconds.push_back(seconds_since(start));
  }
  std::vector<double> sorted = result.step_seconds;
  std::sort(sorted.begin(), sorted.end());
  result.median_step_seconds = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  result.tokens_per_second =
      static_cast<double>(options.batch * options.length) / result.median_step_seconds;
  const ArenaStatistics memory = Arena::of(options.device).statistics();
  result.peak_memory_bytes = memory.peak_in_use_bytes;
  result.reserved_memory_bytes = memory.reserved_bytes;
  const StepFlops flops =
      step_flops(run.model().config(), options.batch, options.length, options.train ? 0.15 : 1);
  result.flops_per_step =
      flops.forward() + (options.train ? flops.backward(options.activation_checkpointing) : 0);
  if (options.profile)
    result.kernels = profile(options.device, options.steps, [&] { run.step(number++); });
  measure_rates(options, run.model().config(), result);
  result.threads = num_threads();
  result.cpu_level = name_of(cpu_level());
  return result;
}

}  // namespace nystrom
