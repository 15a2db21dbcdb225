#include "train/loop/attention_monitor.h"

#include "core/check.h"

namespace nystrom {
namespace {

constexpr std::int64_t patience = 3;
// Six steps leave up to 7 % in good trained models.
constexpr double good_residual = 0.1;

}  // namespace

AttentionMonitor::AttentionMonitor(const RunConfig& config, Log& log)
    : config_(config), log_(log) {}

void AttentionMonitor::begin(std::int64_t step, StepOptions& options) {
  watch_.reset();
  const auto& every = config_.logging.attention_every;
  if (!every || step % *every != 0 || !config_.model.has_kind(AttentionKind::nystrom)) return;
  watch_ = std::make_unique<AttentionWatch>(config_.model);
  loss_scale_ = options.loss_scale;
  options.observe_attention = [this](const AttentionInputs& inputs, Var& output) {
    watch_->observe(inputs, output);
  };
}

Metrics AttentionMonitor::end() {
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

void AttentionMonitor::judge(std::int64_t layer, const AttentionFigures& figures) {
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
                  layer, 100 * figures.error, inverse, config_.run_dir));
}

}  // namespace nystrom
