// The optimizers AdamW, LAMB and Muon, over the slabs of a parameter store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/parameter_store.h"
#include "train/optim/options.h"
#include "train/optim/parameter_groups.h"

namespace nystrom {

/// The factor that reduces a gradient of norm `norm` to at most `limit`: min(1, limit / (norm +
/// 1e-6)), as in torch.nn.utils.clip_grad_norm_. NaN for a norm of NaN.
double clip_factor(double norm, double limit);

/// The matrices with the singular vectors of each of x [k, r, c] and singular values near 1 (0.7 to
/// 1.2), in `dtype`: five steps x ← a x + (b A + c A²) x of Newton and Schulz with A = x xᵀ, from x
/// over its norm. Zeros stay.
Tensor orthogonal(const Tensor& x, DType dtype);

/// The ranges of the slabs that an optimizer updates as a whole: the matrices of layers for muon.
std::vector<SlabRange> undivided_ranges(const ParameterStore& store,
                                        const OptimizerOptions& options);

/// Adam with decoupled weight decay (Loshchilov & Hutter, arXiv 1711.05101). It computes
/// torch.optim.AdamW, over all parameters in one pass. Biases and LayerNorm do not decay. Moments
/// have the type of the masters. Parameters with another learning rate make passes of their own:
/// see parameter_options (train/optim/parameter_groups.h). Frozen ones are left out.
///
/// The kind lamb is algorithm 2 of You et al., ICLR 2020, arXiv 1904.00962. Each parameter p moves
/// by the learning rate times ‖p‖ / ‖u‖ times u, its AdamW update with weight decay. The factor ‖p‖
/// / ‖u‖ is 1 where a norm is 0. Parameters without decay move as under AdamW.
///
/// The kind muon is that of Jordan et al., kellerjordan.github.io/posts/muon (2024), as Liu et al.
/// scale it, arXiv 2502.16982. A matrix [r, c] of a layer has a momentum m ← μ m + g in the place
/// of the first moment, and moves by the learning rate times 0.2 √max(r, c) · orthogonal(g + μ m) +
/// decay · p, whose elements are about as large as AdamW's. All else moves as under AdamW.
class Optimizer {
 public:
  /// `store` must be allocated for training and outlive the optimizer; its parameters must be
  /// frozen as options.groups says. With a range, the optimizer
  /// updates that range only and holds its moments; the store keeps its masters. For muon the range
  /// divides none of the undivided_ranges. lamb accepts no range: it needs whole parameters. Throws
  /// an Error for options that the section `optimizer` does not permit.
  Optimizer(ParameterStore& store, const OptimizerOptions& options,
            std::optional<SlabRange> range = {});

  /// The Euclidean norm of all gradients, computed in f64.
  double gradient_norm() const;
  /// Updates the parameters from their gradients times `gradient_scale`. The step number, from 1,
  /// corrects the moments' bias. Throws an Error for numbers that are not finite.
  void step(double learning_rate, double gradient_scale = 1);
  /// Sets all gradients to 0.
  void zero_gradients();

  /// The number of updates so far.
  std::int64_t steps_taken() const { return steps_taken_; }

  /// The elements that this optimizer updates.
  SlabRange range() const { return range_; }
  /// The number of slabs in state().
  static constexpr std::int64_t state_slabs = 2;
  /// Its state in checkpoints: the moments "moment1" and "moment2", laid out as the store's
  /// slabs in range().
  std::vector<NamedTensor> state() const { return {{"moment1", moment1_}, {"moment2", moment2_}}; }
  /// Restores the number of updates, to resume.
  void set_steps_taken(std::int64_t steps) { steps_taken_ = steps; }

 private:
  /// Consecutive parameters with one learning rate, and the form in which kernels::adamw takes
  /// their weight decay.
  struct Part {
    SlabRange range;
    double learning_rate_factor;
    Tensor ends;    // [k] i64: the end of each segment, from the range's begin
    Tensor decays;  // [k] f64
  };

  void find_parts();
  void find_matrices();
  void adamw(Tensor& parameters, Tensor low, double learning_rate, double gradient_scale);
  void lamb(double learning_rate, double gradient_scale);
  void muon(double learning_rate, double gradient_scale);
  std::vector<double> trust_ratios(const Tensor& updates) const;

  ParameterStore& store_;
  OptimizerOptions options_;
  SlabRange range_;
  std::vector<ParameterOptions> of_each_;  // of the store's parameters, in its order
  std::vector<Part> parts_;
  std::vector<std::vector<std::size_t>> matrices_;  // of muon: parameters of one shape each
  Tensor moment1_, moment2_;
  // For LAMB only.
  Tensor updates_;
  std::int64_t steps_taken_ = 0;
};

}  // namespace nystrom
