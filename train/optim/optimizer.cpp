#include "train/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {

std::span<const EnumName<OptimizerKind>> enum_names(OptimizerKind) {
  static constexpr EnumName<OptimizerKind> names[] = {{OptimizerKind::adamw, "adamw"},
                                                      {OptimizerKind::lamb, "lamb"},
                                                      {OptimizerKind::muon, "muon"}};
  return names;
}

namespace {

/// Whether muon moves the parameter by its momentum made orthogonal.
bool is_matrix_of_muon(const Parameter& parameter, const OptimizerOptions& options) {
  return options.name == OptimizerKind::muon && parameter.shape().rank() == 2 &&
         parameter.decays() && parameter.name().find(".layer.") != std::string::npos;
}

bool lies_in(const SlabRange& inner, const SlabRange& outer) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace

std::vector<SlabRange> undivided_ranges(const ParameterStore& store,
                                        const OptimizerOptions& options) {
  std::vector<SlabRange> ranges;
  for (const Parameter& parameter : store.parameters())
    if (is_matrix_of_muon(parameter, options)) ranges.push_back(store.range_of(parameter.name()));
  return ranges;
}

double clip_factor(double norm, double limit) { return std::min(1.0, limit / (norm + 1e-6)); }

Optimizer::Optimizer(ParameterStore& store, const OptimizerOptions& options,
                     std::optional<SlabRange> range)
    : store_(store), options_(options), range_(range.value_or(SlabRange{0, store.slab_size()})) {
  require(store.gradients().defined(),
          "the optimizer needs a parameter store that was allocated for training");
  require(options.betas.size() == 2, "the optimizer needs two betas, got {}", options.betas.size());
  require(!range || options.name != OptimizerKind::lamb,
          "lamb needs whole parameters, not a range of the slabs");
  for (const SlabRange& whole : undivided_ranges(store, options))
    require(whole.end <= range_.begin || range_.end <= whole.begin || lies_in(whole, range_),
            "the range {} to {} divides a matrix of muon, {} to {}", range_.begin, range_.end,
            whole.begin, whole.end);
  find_parts();
  const AllocationLabel label("optimizer moments");
  moment1_ = zeros_like(store.masters(range_));
  moment2_ = zeros_like(moment1_);
  if (options.name == OptimizerKind::lamb) updates_ = zeros_like(store.masters());
}

/// Divides the elements of range_ that are trained into parts.
void Optimizer::find_parts() {
  const std::vector<Parameter> parameters = store_.parameters();
  of_each_ = parameter_options(store_, options_);
  struct Segments {
    std::vector<std::int64_t> ends;
    std::vector<double> decays;
  };
  std::vector<Segments> segments;  // of each part
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterOptions& own = of_each_[i];
    require(own.frozen <= parameters[i].is_frozen(),
            "parameter {} was not frozen before its store was allocated", parameters[i].name());
    const SlabRange all = store_.range_of(parameters[i].name()),
                    here{std::max(all.begin, range_.begin), std::min(all.end, range_.end)};
    if (parameters[i].is_frozen() || is_matrix_of_muon(parameters[i], options_) || here.size() <= 0)
      continue;
    const bool continues = !parts_.empty() && parts_.back().range.end == here.begin &&
                           parts_.back().learning_rate_factor == own.learning_rate_factor;
    if (!continues) {
      parts_.push_back({{here.begin, here.begin}, own.learning_rate_factor, {}, {}});
      segments.emplace_back();
    }
    auto& [ends, decays] = segments.back();
    parts_.back().range.end = here.end;
    if (!decays.empty() && decays.back() == own.weight_decay) {
      ends.pop_back();
      decays.pop_back();
    }
    ends.push_back(parts_.back().range.size());
    decays.push_back(own.weight_decay);
  }
  const Device device = store_.values().device();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Shape count{std::ssize(segments[i].ends)};
    parts_[i].ends = Tensor::from(segments[i].ends, count).to(device);
    parts_[i].decays = Tensor::from(segments[i].decays, count).to(device);
  }
}

double Optimizer::gradient_norm() const {
  Tensor squares = Tensor::empty({1}, DType::f64, store_.gradients().device());
  kernels::sum_of_squares(store_.gradients(), squares);
  return std::sqrt(squares.item());
}

void Optimizer::step(double learning_rate, double gradient_scale) {
  ++steps_taken_;
  if (options_.name == OptimizerKind::lamb) return lamb(learning_rate, gradient_scale);
  if (options_.name == OptimizerKind::muon) return muon(learning_rate, gradient_scale);
  if (range_.size() == 0) return;
  Tensor masters = store_.masters(range_), low;
  if (store_.dtype() != masters.dtype()) low = store_.values().slice(0, range_.begin, range_.end);
  adamw(masters, low, learning_rate, gradient_scale);
}

void Optimizer::adamw(Tensor& parameters, Tensor low, double learning_rate, double gradient_scale) {
  const auto t = static_cast<double>(steps_taken_);
  const double beta1 = options_.betas[0], beta2 = options_.betas[1];
  for (const Part& part : parts_) {
    const auto own = [&](const Tensor& x) {
      return x.slice(0, part.range.begin - range_.begin, part.range.end - range_.begin);
    };
    // LAMB applies the factor to its scaled update.
    const double factor = options_.name == OptimizerKind::lamb ? 1 : part.learning_rate_factor;
    kernels::adamw(own(parameters), store_.gradients().slice(0, part.range.begin, part.range.end),
                   own(moment1_), own(moment2_), low.defined() ? own(low) : Tensor(), part.ends,
                   part.decays,
                   {factor * learning_rate, beta1, beta2, options_.epsilon, 1 - std::pow(beta1, t),
                    1 - std::pow(beta2, t), gradient_scale});
  }
}

void Optimizer::lamb(double learning_rate, double gradient_scale) {
  // The update that AdamW with a learning rate of 1 adds to the parameters.
  Tensor masters = store_.masters();
  kernels::copy(masters, updates_);
  adamw(updates_, {}, 1, gradient_scale);
  kernels::accumulate(masters, -1, updates_);
  const std::vector<double> ratios = trust_ratios(updates_);
  const std::vector<Parameter> parameters = store_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].is_frozen()) continue;
    const std::string& name = parameters[i].name();
    Tensor master = store_.master(name);
    kernels::accumulate(store_.part_of(updates_, name),
                        learning_rate * of_each_[i].learning_rate_factor * ratios[i], master);
  }
  store_.round_masters();
}

std::vector<double> Optimizer::trust_ratios(const Tensor& updates) const {
  const std::vector<Parameter> parameters = store_.parameters();
  const auto count = static_cast<std::int64_t>(parameters.size());
  // Compute all sums before reading any: one wait for the GPU.
  const Tensor squares = Tensor::zeros({2, count}, DType::f64, updates.device());
  const Tensor of_parameters = squares.slice(0, 0, 1).reshape({count}),
               of_updates = squares.slice(0, 1, 2).reshape({count});
  for (std::int64_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters[static_cast<std::size_t>(i)];
    if (!parameter.decays()) continue;
    Tensor own = of_parameters.slice(0, i, i + 1), update = of_updates.slice(0, i, i + 1);
    kernels::sum_of_squares(store_.master(parameter.name()), own);
    kernels::sum_of_squares(store_.part_of(updates, parameter.name()), update);
  }
  const std::vector<double> sums = squares.to(cpu_device).to_doubles();
  std::vector<double> ratios(parameters.size(), 1);
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const double own = sums[i], update = sums[ratios.size() + i];
    if (own > 0 && update > 0) ratios[i] = std::sqrt(own / update);
  }
  return ratios;
}

Tensor orthogonal(const Tensor& x) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const NoGrad constant;
  const bool tall = x.dim(0) > x.dim(1);
  Tensor squares = Tensor::empty({1}, DType::f64, x.device());
  kernels::sum_of_squares(x, squares);
  Var y = affine(tall ? transpose(x, 0, 1) : Var(x), 1 / (std::sqrt(squares.item()) + 1e-7));
  for (int i = 0; i < 5; ++i) {
    const Var gram = matmul(y, transpose(y, 0, 1));
    y = a * y + matmul(b * gram + c * matmul(gram, gram), y);
  }
  return (tall ? transpose(y, 0, 1) : y).value();
}

void Optimizer::muon(double learning_rate, double gradient_scale) {
  if (range_.size() == 0) return;
  Tensor masters = store_.masters(range_);
  adamw(masters, {}, learning_rate, gradient_scale);
  const std::vector<Parameter> parameters = store_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name();
    if (parameters[i].is_frozen() || !is_matrix_of_muon(parameters[i], options_)) continue;
    const SlabRange whole = store_.range_of(name);
    if (!lies_in(whole, range_)) continue;
    const Shape& shape = parameters[i].shape();
    const std::int64_t begin = whole.begin - range_.begin;
    const auto matrix = [&](const Tensor& own) {
      return own.slice(0, begin, begin + shape.numel()).reshape(shape);
    };
    Tensor master = matrix(masters), momentum = matrix(moment1_);
    const Var gradient = affine(store_.gradient(name), gradient_scale);
    kernels::copy((options_.momentum * Var(momentum) + gradient).value(), momentum);
    const Tensor ahead = (options_.momentum * Var(momentum) + gradient).value();
    const Tensor update = orthogonal(ahead.cast(store_.dtype())).cast(master.dtype());
    const double rate = learning_rate * of_each_[i].learning_rate_factor,
                 size =
                     0.2 * std::sqrt(static_cast<double>(std::max(update.dim(0), update.dim(1))));
    kernels::copy(affine(master, 1 - rate * of_each_[i].weight_decay).value(), master);
    kernels::accumulate(update, -rate * size, master);
  }
  store_.round_masters();
}

void Optimizer::zero_gradients() { kernels::fill(store_.gradients(), 0); }

}  // namespace nystrom
