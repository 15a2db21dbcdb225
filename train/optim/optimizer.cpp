#include "train/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/ops.h"
#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {

namespace {

/// Whether muon moves the parameter by its momentum made orthogonal.
bool is_matrix_of_muon(const Parameter& parameter, const OptimizerOptions& options) {
  return options.name == OptimizerKind::muon && parameter.shape().rank() == 2 &&
         parameter.decays() && parameter.name().find(".layer.") != std::string::npos;
}

bool lies_in(const SlabRange& inner, const SlabRange& outer) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

/// Throws an Error for a number that its field does not permit.
struct PermittedNumbers {
  template <class T>
  void operator()(const T& value, const char* name, const char*, const Range& range = any_number) {
    if constexpr (is_optional<T>) {
      if (value) operator()(*value, name, "", range);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      for (const double each : value) operator()(each, name, "", range);
    } else if constexpr (std::is_same_v<T, double>) {
      require(range.contains(value) && std::isfinite(value), "the optimizer has {} {}; expected {}",
              name, value, describe(range, false));
    } else if constexpr (is_section_list<T>) {
      for (auto section : value) fields(*this, section);
    }
  }
};

/// The sum of the squares of each tensor: one wait for the GPU.
std::vector<double> sums_of_squares(const std::vector<Tensor>& tensors, Device device) {
  const auto count = static_cast<std::int64_t>(tensors.size());
  const Tensor squares = Tensor::empty({count}, DType::f64, device);
  for (std::int64_t i = 0; i < count; ++i) {
    Tensor own = squares.slice(0, i, i + 1);
    kernels::sum_of_squares(tensors[static_cast<std::size_t>(i)], own);
  }
  return squares.to_doubles();
}

}  // namespace

std::vector<SlabRange> undivided_ranges(const ParameterStore& store,
                                        const OptimizerOptions& options) {
  std::vector<SlabRange> ranges;
  for (const Parameter& parameter : store.parameters())
    if (is_matrix_of_muon(parameter, options)) ranges.push_back(store.range_of(parameter.name()));
  return ranges;
}

double clip_factor(double norm, double limit) {
  require(limit > 0, "limit {}; expected a number greater than 0", limit);
  require(!(norm < 0), "norm {}; expected a number of at least 0", norm);
  return std::min(limit / (norm + 1e-6), 1.0);  // in this order NaN stays
}

Optimizer::Optimizer(ParameterStore& store, const OptimizerOptions& options,
                     std::optional<SlabRange> range)
    : store_(store), options_(options), range_(range.value_or(SlabRange{0, store.slab_size()})) {
  require(store.gradients().defined(),
          "the optimizer needs a parameter store that was allocated for training");
  require(options.betas.size() == 2, "the optimizer needs two betas, got {}", options.betas.size());
  PermittedNumbers permitted;
  fields(permitted, options_);
  require(!range || options.name != OptimizerKind::lamb,
          "lamb needs whole parameters, not a range of the slabs");
  for (const SlabRange& whole : undivided_ranges(store, options))
    require(whole.end <= range_.begin || range_.end <= whole.begin || lies_in(whole, range_),
            "the range {} to {} divides a matrix of muon, {} to {}", range_.begin, range_.end,
            whole.begin, whole.end);
  find_parts();
  find_matrices();
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

double Optimizer::gradient_norm() const { return std::sqrt(sum_of_squares(store_.gradients())); }

void Optimizer::step(double learning_rate, double gradient_scale) {
  require(std::isfinite(learning_rate) && std::isfinite(gradient_scale),
          "a step has the learning rate {} and the gradient scale {}; expected finite numbers",
          learning_rate, gradient_scale);
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
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : parameters) {
    if (!parameter.decays()) continue;
    tensors.push_back(store_.master(parameter.name()));
    tensors.push_back(store_.part_of(updates, parameter.name()));
  }
  const std::vector<double> sums = sums_of_squares(tensors, updates.device());
  std::vector<double> ratios;
  for (std::size_t next = 0; const Parameter& parameter : parameters) {
    ratios.push_back(1);
    if (!parameter.decays()) continue;
    const double own = sums[next], update = sums[next + 1];
    if (own > 0 && update > 0) ratios.back() = std::sqrt(own / update);
    next += 2;
  }
  return ratios;
}

Tensor orthogonal(const Tensor& x, DType dtype) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const NoGrad constant;
  const std::int64_t count = x.dim(0);
  std::vector<Tensor> matrices;
  for (std::int64_t i = 0; i < count; ++i) matrices.push_back(x.slice(0, i, i + 1));
  const std::vector<double> sums = sums_of_squares(matrices, x.device());
  const Tensor unit = empty_like(x);
  for (std::int64_t i = 0; i < count; ++i)
    kernels::affine(matrices[static_cast<std::size_t>(i)],
                    1 / (std::sqrt(sums[static_cast<std::size_t>(i)]) + 1e-7), 0,
                    unit.slice(0, i, i + 1));
  const bool tall = x.dim(1) > x.dim(2);
  Var y = unit.cast(dtype);
  if (tall) y = transpose(y, 1, 2);
  for (int i = 0; i < 5; ++i) {
    const Var gram = matmul(y, transpose(y, 1, 2));
    y = a * y + matmul(b * gram + c * matmul(gram, gram), y);
  }
  return (tall ? transpose(y, 1, 2) : y).value();
}

/// Groups the matrices of muon by their shape.
void Optimizer::find_matrices() {
  constexpr std::int64_t most_elements = 1 << 23;  // of a group: its temporaries take memory
  const std::vector<Parameter> parameters = store_.parameters();
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> open;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].is_frozen() || !is_matrix_of_muon(parameters[i], options_) ||
        !lies_in(store_.range_of(parameters[i].name()), range_))
      continue;
    const Shape& shape = parameters[i].shape();
    const auto [place, is_new] = open.try_emplace({shape[0], shape[1]}, matrices_.size());
    const auto is_full = [&](const std::vector<std::size_t>& group) {
      return (std::ssize(group) + 1) * shape.numel() > most_elements;
    };
    if (is_new || is_full(matrices_[place->second])) {
      place->second = matrices_.size();
      matrices_.emplace_back();
    }
    matrices_[place->second].push_back(i);
  }
}

void Optimizer::muon(double learning_rate, double gradient_scale) {
  if (range_.size() == 0) return;
  Tensor masters = store_.masters(range_);
  adamw(masters, {}, learning_rate, gradient_scale);
  const std::vector<Parameter> parameters = store_.parameters();
  for (const std::vector<std::size_t>& group : matrices_) {
    const Shape& shape = parameters[group.front()].shape();
    const Shape one{1, shape[0], shape[1]};
    const auto matrix = [&](const Tensor& own, std::size_t parameter) {
      const std::int64_t begin = store_.range_of(parameters[parameter].name()).begin;
      return own.slice(0, begin - range_.begin, begin - range_.begin + shape.numel()).reshape(one);
    };
    const auto at = [](const Tensor& of_all, std::size_t i) {
      const auto place = static_cast<std::int64_t>(i);
      return of_all.slice(0, place, place + 1);
    };
    const Tensor ahead =
        Tensor::empty({std::ssize(group), shape[0], shape[1]}, masters.dtype(), masters.device());
    for (std::size_t i = 0; i < group.size(); ++i) {
      Tensor momentum = matrix(moment1_, group[i]), own = at(ahead, i);
      const Tensor gradient = store_.gradient(parameters[group[i]].name()).reshape(one);
      kernels::affine(momentum, options_.momentum, 0, momentum);
      kernels::accumulate(gradient, gradient_scale, momentum);
      kernels::affine(momentum, options_.momentum, 0, own);
      kernels::accumulate(gradient, gradient_scale, own);
    }
    const Tensor update = orthogonal(ahead, store_.dtype());
    const double size = 0.2 * std::sqrt(static_cast<double>(std::max(shape[0], shape[1])));
    for (std::size_t i = 0; i < group.size(); ++i) {
      const ParameterOptions& own = of_each_[group[i]];
      const double rate = learning_rate * own.learning_rate_factor;
      Tensor master = matrix(masters, group[i]);
      kernels::affine(master, 1 - rate * own.weight_decay, 0, master);
      kernels::accumulate(at(update, i), -rate * size, master);
    }
  }
  store_.round_masters();
}

void Optimizer::zero_gradients() { kernels::fill(store_.gradients(), 0); }

}  // namespace nystrom
