#include "train/loop/run_logger.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "core/base/printable.h"
#include "core/check.h"
#include "core/cuda/runtime.h"
#include "nn/attention_watch.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The tokens of the first n steps, where all sequences have their full length.
std::function<double(std::int64_t)> tokens_of_steps(const RunConfig& config) {
  return [stages = stages_of(config)](std::int64_t steps) {
    double tokens = 0;
    for (std::size_t i = 0; i < stages.size() && stages[i].begin < steps; ++i) {
      const std::int64_t end = i + 1 < stages.size() ? std::min(steps, stages[i + 1].begin) : steps;
      tokens += static_cast<double>(end - stages[i].begin) *
                static_cast<double>(stages[i].sequences) * static_cast<double>(stages[i].length);
    }
    return tokens;
  };
}

}  // namespace

ProcessorTimes processor_times() {
  ProcessorTimes times;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  for (const timeval& part : {usage.ru_utime, usage.ru_stime})
    times.own += static_cast<double>(part.tv_sec) + 1e-6 * static_cast<double>(part.tv_usec);
  // The first line of /proc/stat: cpu user nice system idle iowait irq softirq steal, in ticks.
  std::ifstream file("/proc/stat");
  std::string name;
  double ticks = 0;
  file >> name;
  for (int field = 0; field < 8 && file >> ticks; ++field)
    if (field != 3 && field != 4) times.busy += ticks;
  times.busy /= static_cast<double>(::sysconf(_SC_CLK_TCK));
  return times;
}

SpeedWatch::SpeedWatch(bool on_gpu, std::function<ProcessorTimes()> times)
    : on_gpu_(on_gpu), times_(std::move(times)), begin_(times_()) {}

std::string SpeedWatch::reason(double seconds) const {
  if (on_gpu_) return "does another program use the GPU?";
  const ProcessorTimes now = times_();
  if (now.busy == 0) return "the system does not tell whether other programs are busy";
  const double others = (now.busy - begin_.busy - (now.own - begin_.own)) / seconds;
  if (others > 0.25)
    return fmt::format(
        "other programs use {:.1f} of {} processors; end them, or start this run with fewer "
        "--threads",
        others, std::thread::hardware_concurrency());
  return "no other program is busy: the processor is hot, or limited by its container or host";
}

std::optional<std::string> SpeedWatch::update(std::int64_t step, std::int64_t tokens,
                                              double seconds) {
  constexpr std::int64_t window_steps = 10;
  constexpr double window_seconds = 2, collapse = 1.0 / 3;
  ++steps_;
  tokens_ += tokens;
  seconds_ += seconds;
  if (told_ || steps_ < window_steps || seconds_ < window_seconds) return std::nullopt;
  const double speed = static_cast<double>(tokens_) / seconds_;
  std::optional<std::string> message;
  if (speed < collapse * fastest_) {
    told_ = true;
    message = fmt::format("step {}: {:.0f} tokens/s, {:.0f} at step {}; {}", step, speed, fastest_,
                          fastest_step_, reason(seconds_));
  }
  if (speed > fastest_) {
    fastest_ = speed;
    fastest_step_ = step;
  }
  begin_ = times_();
  steps_ = tokens_ = 0;
  seconds_ = 0;
  return message;
}

/// Monitors the layers of attention.kind nystrom in every logging.attention_every-th step. Does
/// nothing for models without such layers.
class AttentionMonitor {
 public:
  AttentionMonitor(const RunConfig& config, Log& log) : config_(config), log_(log) {}

  /// Called before step number `step`, from 1. Sets options.observe_attention if the step is due.
  void begin(std::int64_t step, StepOptions& options) {
    watch_.reset();
    const auto& every = config_.logging.attention_every;
    if (!every || step % *every != 0 || !config_.model.has_kind(AttentionKind::nystrom)) return;
    watch_ = std::make_unique<AttentionWatch>(config_.model);
    loss_scale_ = options.loss_scale;
    options.observe_attention = [this](const AttentionInputs& inputs, Var& output) {
      watch_->observe(inputs, output);
    };
  }

  /// Called after the step. Returns "layer_0_attention_error", …, or nothing if the step was not
  /// monitored. Logs a line when a layer's error exceeds logging.attention_error_limit three times
  /// in a row. The line comes once, until the error falls below the limit again.
  Metrics end() {
    Metrics metrics;
    if (!watch_) return metrics;
    for (const auto& [layer, figures] : watch_->layers()) {
      const std::string prefix = fmt::format("layer_{}_", layer);
      metrics.insert(metrics.end(),
                     {{prefix + "attention_error", figures.error},
                      {prefix + "attention_entropy", figures.entropy},
                      {prefix + "inverse_residual", figures.residual},
                      {prefix + "inverse_gradient", figures.inverse_gradient / loss_scale_}});
      judge(layer, figures);
    }
    watch_.reset();
    return metrics;
  }

 private:
  static constexpr std::int64_t patience = 3;
  // Six steps leave up to 7 % in good trained models.
  static constexpr double good_residual = 0.1;

  void judge(std::int64_t layer, const AttentionFigures& figures) {
    std::int64_t& above = above_[layer];
    above = figures.error > config_.logging.attention_error_limit ? above + 1 : 0;
    if (above != patience) return;
    const AttentionConfig& attention = config_.model.attention;
    const bool rough = attention.inverse == Inverse::iterative && figures.residual > good_residual;
    const std::string inverse =
        rough ? fmt::format("; its inverse is rough (residual {:.2f} after {} iterations)",
                            figures.residual, attention.inverse_iterations)
              : "";
    // No warning: a large error often costs no loss, because the layers adapt to it in training.
    log_.say(
        fmt::format("layer {}: its attention differs by {:.0f} % from exact attention{}; what that "
                    "costs in loss: "
                    "nystrom approximation model {} TEXT",
                    layer, 100 * figures.error, inverse, printable_path(config_.run_dir)));
  }

  const RunConfig& config_;
  Log& log_;
  std::unique_ptr<AttentionWatch> watch_;
  double loss_scale_ = 1;  // the loss scale of the monitored step
  // How often in a row the error was above the limit, by layer.
  std::map<std::int64_t, std::int64_t> above_;
};

RunLogger::RunLogger(const RunConfig& config, Device device, Communicator& communicator, Log& log,
                     std::int64_t done, std::int64_t steps)
    : config_(config),
      device_(device),
      communicator_(communicator),
      log_(log),
      attention_(std::make_unique<AttentionMonitor>(config, log)),
      speed_(!device.is_cpu()),
      resumed_(done),
      step_(done),
      steps_(steps) {
  progress_.emplace("step", done, steps, log, tokens_of_steps(config));
  if (communicator.is_first())
    metrics_.emplace(config.run_dir, done, config.logging.tensorboard, log);
}

RunLogger::~RunLogger() = default;

void RunLogger::roll_back(std::int64_t done) {
  if (metrics_) metrics_->roll_back(done, done);
  samples_.reset();  // opened again, they are rolled back
  progress_.emplace("step", done, steps_, log_, tokens_of_steps(config_));
}

void RunLogger::begin_stage() { speed_ = SpeedWatch(!device_.is_cpu()); }

void RunLogger::begin_step(std::int64_t step, StepOptions& options) {
  step_ = step;
  begin_ = Clock::now();
  communication_ = {communicator_.working_seconds(), communicator_.waiting_seconds()};
  if (communicator_.is_first()) attention_->begin(step, options);
}

double RunLogger::end_step(const StepResult& done, const StepOptions& options) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  const Metrics of_attention = attention_->end();
  const bool record =
      step_ % config_.logging.every == 0 || step_ == steps_ || !of_attention.empty();
  means_.add(step_, done.loss, done.accuracy, done.tokens, seconds);
  if (const auto slow = speed_.update(step_, done.tokens, seconds)) log_.warn(*slow);
  warn_of_slow_products();
  const ArenaStatistics memory = Arena::of(device_).statistics();
  if (record && metrics_) record_step(done, options, seconds, memory, of_attention);
  const std::string accuracy =
      means_.accuracy() ? fmt::format(", accuracy {:.1f} %", 100 * *means_.accuracy()) : "";
  progress_->update(step_,
                    fmt::format("loss {:.4f}{}, {:.0f} tokens/s, {:.2f} GB ({:.2f} reserved)",
                                means_.loss(), accuracy, means_.tokens_per_second(),
                                static_cast<double>(memory.peak_in_use_bytes) / 1e9,
                                static_cast<double>(memory.reserved_bytes) / 1e9),
                    record);
  if (record) means_.clear();
  return static_cast<double>(done.tokens) / seconds;
}

void RunLogger::record_step(const StepResult& done, const StepOptions& options, double seconds,
                            const ArenaStatistics& memory, const Metrics& of_attention) {
  Metrics metrics = {{"loss", done.loss}};
  if (done.accuracy) metrics.emplace_back("accuracy", *done.accuracy);
  metrics.insert(metrics.end(), done.figures.begin(), done.figures.end());
  metrics.insert(metrics.end(),
                 {{"learning_rate", options.learning_rate},
                  {"grad_norm", done.gradient_norm},
                  {"tokens_per_second", static_cast<double>(done.tokens) / seconds},
                  {"peak_memory_bytes", static_cast<double>(memory.peak_in_use_bytes)},
                  {"reserved_memory_bytes", static_cast<double>(memory.reserved_bytes)},
                  {"mean_loss", means_.loss()},
                  {"mean_tokens_per_second", means_.tokens_per_second()}});
  if (means_.accuracy()) metrics.emplace_back("mean_accuracy", *means_.accuracy());
  if (config_.training.dtype == DType::f16) metrics.emplace_back("loss_scale", options.loss_scale);
  metrics.insert(metrics.end(), of_attention.begin(), of_attention.end());
  if (communicator_.is_connected())
    metrics.insert(
        metrics.end(),
        {{"communication_seconds", communicator_.working_seconds() - communication_.working},
         {"waiting_seconds", communicator_.waiting_seconds() - communication_.waiting}});
  metrics_->write(step_, metrics);
}

Metrics RunLogger::evaluation(std::int64_t step, const Score& score, const std::string& samples) {
  Metrics metrics;
  for (const auto& [name, value] : score.metrics)
    metrics.emplace_back(std::string(validation_prefix) + name, value);
  if (metrics_) {
    // A start before this one may have recorded it, and ended before its next checkpoint.
    if (step == resumed_) metrics_->roll_back(step, step - 1);
    metrics_->write(step, metrics);
  }
  if (!samples.empty()) record_samples(step, samples);
  return metrics;
}

/// A file that cannot be opened, as on a full disk, does not stop the run.
void RunLogger::record_samples(std::int64_t step, const std::string& samples) {
  try {
    if (!samples_) samples_.emplace(fs::path(config_.run_dir) / mask_samples_file, log_, step - 1);
    samples_->append(samples + "\n");
  } catch (const InputError& error) {
    log_.warn(error.what());
  }
}

/// Says once that products do not run where the GPU is fast.
void RunLogger::warn_of_slow_products() {
  const cuda::SlowProducts slow = cuda::slow_products();
  if (slow.count == 0 || warned_of_slow_products_) return;
  warned_of_slow_products_ = true;
  log_.warn(fmt::format("step {}: {}", step_, slow.text()));
}

}  // namespace nystrom
