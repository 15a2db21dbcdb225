// Tests of several processes, run in each of them: mpirun -np N processes_worker. With "cuda" they
// compute on GPUs and are connected by NCCL. distributed_test.cpp starts it. Exits with 0 when all
// checks pass.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/base/file_io.h"
#include "core/base/scratch_folder.h"
#include "core/check.h"
#include "core/dispatch.h"
#include "core/kernels.h"
#include "tests/support/numbered_batches.h"
#include "train/distributed/processes.h"
#include "train/loop/train_step.h"
#include "train/loop/trainer.h"
#include "train/state/checkpoint.h"

namespace nystrom::testing {
namespace {

Device device = cpu_device;

void expect(bool condition, const std::string& what) {
  if (!condition) throw Error(what);
}

/// Values of process `rank` that every type represents exactly, including their sums.
Tensor values_of(int rank, std::int64_t count, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>((i * 7 + rank * 3) % 16 - 8));
  return Tensor::from(values, {count}).cast(dtype).to(device);
}

std::vector<double> sum_over_ranks(int size, std::int64_t count) {
  std::vector<double> sums(static_cast<std::size_t>(count), 0);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<double> values = values_of(rank, count, DType::f64).to_doubles();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  return sums;
}

void check_sums(Communicator& c) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const std::int64_t count : {1, 3, 17, 1000, 70001}) {
      const std::string what = fmt::format("{} x {}", count, dtype);
      const Tensor all = values_of(c.rank(), count, dtype), one = values_of(c.rank(), count, dtype);
      const int root = c.size() - 1;
      c.all_reduce(all);
      c.reduce(one, root);
      c.wait();
      expect(all.to_doubles() == sum_over_ranks(c.size(), count), "all_reduce " + what);
      if (c.rank() == root)
        expect(one.to_doubles() == sum_over_ranks(c.size(), count), "reduce " + what);
      const Tensor shared = values_of(c.rank(), count, dtype);
      c.broadcast(shared, root);
      c.wait();
      expect(shared.to_doubles() == values_of(root, count, dtype).to_doubles(),
             "broadcast " + what);
      const std::vector<std::int64_t> bounds = slab_bounds(count, c.size());
      Tensor gathered = Tensor::zeros({count}, dtype, device);
      const auto r = static_cast<std::size_t>(c.rank());
      Tensor own = gathered.slice(0, bounds[r], bounds[r + 1]);
      const Tensor expected = values_of(9, count, dtype);
      if (own.numel() > 0) kernels::copy(expected.slice(0, bounds[r], bounds[r + 1]), own);
      c.all_gather(gathered, bounds);
      c.wait();
      expect(gathered.to_doubles() == expected.to_doubles(), "all_gather " + what);
      if (c.size() > 1) {  // once around the ring
        const Tensor carried = values_of(0, count, dtype);
        if (c.rank() > 0) c.receive(carried, c.rank() - 1);
        c.send(carried, (c.rank() + 1) % c.size());
        if (c.rank() == 0) c.receive(carried, c.size() - 1);
        c.wait();
        expect(carried.to_doubles() == values_of(0, count, dtype).to_doubles(),
               "send and receive " + what);
      }
    }
  }
}

void check_small_things(Communicator& c) {
  expect(c.sum(1.5) == 1.5 * c.size(), "sum");
  expect(c.sum({1, static_cast<double>(c.rank())}) ==
             std::vector<double>{1.0 * c.size(), c.size() * (c.size() - 1) / 2.0},
         "sums");
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(3 * rank), static_cast<char>('a' + rank));
  };
  const std::vector<std::string> texts = c.gather(text_of(c.rank()));  // rank 0 sends an empty text
  for (int rank = 0; rank < c.size(); ++rank)
    expect(texts.at(static_cast<std::size_t>(rank)) == text_of(rank), "gather");
  expect(c.from_first(c.is_first() ? "word" : "other") == "word", "from_first");
  expect(c.from_first("").empty(), "from_first of nothing");
  expect(c.name_of(0).starts_with("rank 0 on "), "name_of");
}

/// Another order of float additions gives other bits. Sums of rank-dependent values must still have
/// the same bits on all ranks.
void check_same_bits(Communicator& c) {
  std::vector<float> values;
  for (int i = 0; i < 5000; ++i)
    values.push_back(std::sin(static_cast<float>(i + 1000 * c.rank())) * 1e-3F);
  const Tensor sums = Tensor::from(values, {5000}).to(device);
  c.all_reduce(sums);
  c.wait();
  const Tensor here = sums.to(cpu_device);
  const std::string bytes(reinterpret_cast<const char*>(here.data<float>()), 5000 * sizeof(float));
  for (const std::string& other : c.gather(bytes))
    expect(other == bytes, "all_reduce gives other bits elsewhere");
}

/// Three steps of four micro-batches, compared with one process. Tiny buckets make sure that
/// reduction overlaps with backward.
void check_steps(Communicator& c, DType dtype, AttentionKind kind, bool checkpointing,
                 GradientSumOptions how) {
  constexpr std::int64_t parts = 4;
  const auto train = [&](Communicator& with, GradientSumOptions options) {
    Model model(config_of(kind));
    ParameterStore& store = model.parameters();
    std::vector<int> ranks;
    std::vector<Batch> own;
    for (std::int64_t m = 0; m < parts; ++m) {
      ranks.push_back(static_cast<int>(m * with.size() / parts));
      if (ranks.back() == with.rank()) own.push_back(micro_batch(m));
    }
    GradientSum sum(store, with, ranks, options);
    store.allocate(dtype, StoreMode::training, device, sum.own_range());
    for (const Parameter& parameter : store.parameters())
      store.set(parameter.name(), weights_of(parameter, 2));
    OptimizerOptions adam;
    /// Parameters without influence have gradients of pure noise, which must not become steps.
    adam.epsilon = 1e-3;
    Optimizer optimizer(store, adam, sum.own_range());
    StepOptions step;
    step.clip_norm = 0.1;
    step.seed = 3;
    step.activation_checkpointing = checkpointing;
    step.gradient_sum = &sum;
    std::vector<double> losses;
    for (step.step = 1; step.step <= 3; ++step.step) {
      const StepResult result = train_step(model, optimizer, own, step);
      losses.insert(losses.end(), {result.loss, result.gradient_norm, *result.accuracy});
    }
    const std::vector<double> values = store.values().to_doubles();
    const std::string bytes(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(double));
    for (const std::string& other : with.gather(bytes))
      expect(other == bytes, "a process has other weights");
    const Tensor masters = sum.masters_for_first();
    return std::pair(losses, masters.defined() ? masters.to_doubles() : values);
  };
  Communicator alone;
  GradientSumOptions single = how;
  single.sharded = single.rounded = false;
  const auto [losses, weights] = train(c, how);
  const auto [expected_losses, exact_weights] = train(alone, single);
  // The other ranks of several have only the values.
  const std::vector<double> expected_weights =
      c.is_first()
          ? exact_weights
          : Tensor::from(exact_weights, {std::ssize(exact_weights)}).cast(dtype).to_doubles();
  const std::string what =
      fmt::format("{} {} deterministic={} sharded={} rounded={} checkpointing={}", dtype,
                  enum_name(kind), how.deterministic, how.sharded, how.rounded, checkpointing);
  if (how.deterministic) {
    expect(losses == expected_losses, "losses of " + what);
    expect(weights == expected_weights, "weights of " + what);
    return;
  }
  const double tolerance = how.rounded ? 2e-5 : dtype == DType::f64 ? 1e-12 : 1e-5;
  const double relative = how.rounded ? 0x1p-8 : 10 * tolerance;  // bf16 has eight bits
  for (std::size_t i = 0; i < losses.size(); ++i)
    expect(std::abs(losses[i] - expected_losses[i]) <= relative * std::abs(expected_losses[i]),
           fmt::format("{} of {}: {} instead of {}", i, what, losses[i], expected_losses[i]));
  for (std::size_t i = 0; i < weights.size(); ++i)
    expect(
        std::abs(weights[i] - expected_weights[i]) <= tolerance,
        fmt::format("weight {} of {}: {} instead of {}", i, what, weights[i], expected_weights[i]));
}

/// A non-finite loss in one process makes all processes skip the step.
void check_skip(Communicator& c) {
  const auto model = make_model(config_of(AttentionKind::nystrom), DType::f32, 2, device);
  std::vector<int> ranks;
  for (int rank = 0; rank < c.size(); ++rank) ranks.push_back(rank);
  GradientSum sum(model->parameters(), c, ranks, {false, true, false, 64});
  Optimizer optimizer(model->parameters(), OptimizerOptions{}, sum.own_range());
  StepOptions step;
  step.gradient_sum = &sum;
  const std::vector<double> before = model->parameters().masters().to_doubles();
  const Batch batch = micro_batch(c.rank());
  const auto loss = [&](std::size_t, const RunContext& run) {
    const double factor = c.rank() == c.size() - 1 ? std::numeric_limits<double>::infinity() : 1;
    return factor * model->masked_lm(batch.input, batch.labels, 1, run).loss;
  };
  const StepResult result = optimizer_step(optimizer, {&batch, 1}, loss, step);
  expect(result.skipped, "a step that is not finite was not skipped");
  expect(model->parameters().masters().to_doubles() == before,
         "a skipped step changed the weights");
}

/// A corruption in the memory of the last process, and the expected report.
struct Corruption {
  enum Slab { masters, moment1, moment2, values } slab;
  int zero;
  std::uint64_t step;  ///< the step after which a bit is flipped
  std::int64_t saved_every;
  std::int64_t found_at;
  std::string reason;
};

class CorruptedObjective : public NumberedObjective {
 public:
  CorruptedObjective(const Communicator& communicator, const Corruption& corruption)
      : NumberedObjective(communicator.rank(), communicator.size()),
        last_(communicator.rank() == communicator.size() - 1),
        corruption_(corruption) {}

  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const StepResult done = NumberedObjective::step(model, optimizer, options);
    if (options.step == corruption_.step && last_) {
      const ParameterStore& store = model.parameters();
      Tensor slab = corruption_.slab == Corruption::values ? store.values() : store.masters();
      if (corruption_.slab == Corruption::moment1) slab = optimizer.state()[0].tensor;
      if (corruption_.slab == Corruption::moment2) slab = optimizer.state()[1].tensor;
      Tensor changed = slab.to(cpu_device).clone();
      // A high bit of the mantissa: a low one may vanish when updates are rounded.
      reinterpret_cast<std::uint32_t*>(changed.data<float>())[slab.numel() / 2] ^= 1u << 22;
      kernels::copy(changed.to(device), slab);
    }
    return done;
  }

 private:
  bool last_;
  Corruption corruption_;
};

/// A divergence of one process is found at the next comparison, before it is saved.
void check_corruption(Communicator& c, const Corruption& corruption) {
  if (c.size() == 1) return;
  const ScratchFolder own;
  RunConfig config = numbered_run(c.size());
  config.run_dir = c.from_first((own.path() / "run").string());
  config.training.steps = 150;
  config.training.zero = corruption.zero;
  config.checkpoint.every = corruption.saved_every;
  Log log(true);
  CorruptedObjective objective(c, corruption);
  std::string message;
  try {
    train_numbered(config, objective, log, device, c);
  } catch (const Error& error) {
    message = error.what();
  }
  const std::string expected = fmt::format(
      "{} has other {} than {}: at step {} the memory or the processor of one of them is at fault; "
      "{}",
      c.name_of(c.size() - 1), corruption.zero ? "weights" : "weights or moments", c.name_of(0),
      corruption.found_at, corruption.reason);
  expect(message == expected, "a flipped bit: " + message);
  const auto saved = checkpoint_steps(std::filesystem::path(config.run_dir) / "checkpoints");
  for (const std::int64_t step : saved)
    expect(step < corruption.found_at, "what was corrupted is saved");
  c.barrier();  // the folder belongs to rank 0
}

/// All ranks roll back together, wherever the masters are. The weights equal those of a run without
/// the skipped batches.
void check_rolling_back(Communicator& c, int zero) {
  const ScratchFolder own;
  RunConfig config = numbered_run(c.size());
  config.training.steps = 44;
  config.training.zero = zero;
  config.training.on_loss_spike = OnLossSpike::roll_back;
  config.checkpoint.every = 7;
  Log log(true);
  log.mute();
  std::string checksums[2];
  for (const bool spikes : {false, true}) {
    config.run_dir = c.from_first((own.path() / (spikes ? "spikes" : "shorter")).string());
    const auto spike = [](std::int64_t batch) { return batch >= 34 && batch < 37; };
    SpikingObjective spiking(c.rank(), c.size(), spike);
    ShorterObjective shorter(c.rank(), c.size(), 28, 9);
    Objective& objective = spikes ? static_cast<Objective&>(spiking) : shorter;
    train_numbered(config, objective, log, device, c);
    checksums[spikes] = file_checksum(std::filesystem::path(config.run_dir) / "checkpoints" /
                                      "step-44" / "model.safetensors");
  }
  expect(checksums[0] == checksums[1], "rolling back gives other weights");
  c.barrier();  // the folder belongs to rank 0
}

void check_all(Communicator& c) {
  check_sums(c);
  check_small_things(c);
  check_same_bits(c);
  for (const bool deterministic : {false, true}) {
    for (const bool sharded : {false, true}) {
      const GradientSumOptions how{deterministic, sharded, false, 500};
      check_steps(c, DType::f64, AttentionKind::nystrom, sharded, how);
      check_steps(c, DType::f32, AttentionKind::linformer, !sharded, how);
      if (deterministic) check_steps(c, DType::bf16, AttentionKind::nystrom, false, how);
    }
  }
  for (const bool sharded : {false, true})
    check_steps(c, DType::f32, AttentionKind::nystrom, false,
                {.sharded = sharded, .rounded = true, .bucket = 500});
  check_skip(c);
  if (!device.is_cpu()) return;  // hundreds of steps, of which nothing depends on the device
  for (const int zero : {0, 1}) check_rolling_back(c, zero);
  const std::string over = "a new start goes on from the last checkpoint";
  for (const auto slab : {Corruption::masters, Corruption::moment1, Corruption::moment2})
    check_corruption(c, {slab, 0, 7, 1000, 100, over});
  check_corruption(c, {Corruption::masters, 0, 17, 10, 20, "nothing is saved"});
  /// In a later step the values of other ranks would overwrite the corruption.
  check_corruption(c, {Corruption::values, 1, 100, 1000, 100, over});
  // This check comes last because it slows down all ranks.
  if (c.rank() == c.size() - 1) limit_cpu_level(CpuLevel::baseline);
  use_common_cpu_level(c);
  expect(cpu_level() == CpuLevel::baseline, "a process computes with what another lacks");
}

}  // namespace
}  // namespace nystrom::testing

int main(int argc, char** argv) {
  using namespace nystrom;
  const bool on_gpus = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
  std::unique_ptr<Communicator> communicator;
  try {
    communicator = connect_processes(on_gpus);
    if (on_gpus) testing::device = {Device::Kind::cuda, gpu_of_process(communicator->local_rank())};
    testing::check_all(*communicator);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n",
               communicator ? communicator->name_of(communicator->rank()) : "not connected",
               error.what());
    if (communicator) communicator->end_all(1);
    return 1;
  }
}
