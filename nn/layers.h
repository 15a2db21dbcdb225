// The basic modules of all models: Linear, LayerNorm, Dropout and activations.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "core/check.h"
#include "nn/model_config.h"
#include "nn/parameter_store.h"

namespace nystrom {

struct AttentionInputs;

/// The context of a forward pass: all it needs beside its inputs.
struct RunContext {
  bool training = false;  ///< dropout on
  bool activation_checkpointing = false;
  std::uint64_t seed = 0, step = 0;  ///< with sample_ids they decide the dropout masks
  /// [b] i64, the global index of each row's sample; required if training.
  Tensor sample_ids{};
  /// Each layer calls it with the inputs and the output of its attention, before the convolution.
  /// It may replace the output by an equal value, to study the attention. Calls come from the first
  /// layer to the last. With checkpointing, backward calls it again, from the last layer to the
  /// first.
  std::function<void(const AttentionInputs&, Var& output)> observe_attention = {};
  /// Each layer calls it with its number, from 0, and the output of its attention block: after the
  /// output projection, before dropout and residual. The rows are those that the layer computes:
  /// [b, n, hidden], or [r, hidden] for tokens alone; in the last layer for those that the head
  /// reads. It may replace the output by an equal value. The order of calls is that of
  /// observe_attention.
  std::function<void(std::int64_t layer, Var& output)> observe_attention_output = {};
  /// Gated attention pooling calls it with the weight of each row in its sequence's mean: [r] f64.
  std::function<void(const Tensor& weights)> observe_pooling = {};
  /// Backward calls it when the gradients from slab offset `place` to the end are final for this
  /// pass: layer by layer, the last one first.
  std::function<void(std::int64_t place)> gradients_final = {};
  /// The caller reads the logits of tokens alone: last_hidden_state may be left out, and logits at
  /// padding are unspecified.
  bool logits_only = false;
  /// Weight of the square of log Σ exp(logits) in the loss of masked tokens.
  double z_loss = 0;
};

/// x as a product with `weight` takes it: rounded to 8 bits if the weight is, else x itself.
Var factor_of(const Parameter& weight, const Var& x);

/// y = x Wᵀ + b, for x […, in] → […, out].
class Linear {
 public:
  /// Declares weight [out, in] and bias [out] under `scope`.
  Linear(const Scope& scope, std::int64_t in, std::int64_t out, bool bias = true)
      : weight_(scope.parameter("weight", {out, in})) {
    if (bias) bias_ = scope.parameter("bias", {out}, {Init::Kind::zeros}, false);
  }
  /// Uses parameters that are declared already.
  Linear(Parameter weight, std::optional<Parameter> bias)
      : weight_(std::move(weight)), bias_(std::move(bias)) {}
  /// x […, in] → […, out].
  Var operator()(const Var& x) const { return linear(factor_of(weight_, x), weight_, bias()); }
  /// (*this)(x) for data without a gradient, of any float type.
  Var of_data(const Tensor& x) const;
  /// The same in the accumulate type, for the last layer of a head. Unrounded logits do not tie.
  Var unrounded(const Var& x) const {
    return linear_unrounded(factor_of(weight_, x), weight_, bias());
  }
  /// Lets unrounded() add the bias in f32 also where the others have 16 bits.
  void keep_bias_exact() { bias_.value().keep_exact(); }
  /// (*this)(activation(a) ∘ b) for the halves a, b of x […, 2·in], in less memory.
  Var of_gated(Activation activation, const Var& x) const;
  /// [out, in].
  const Parameter& weight() const { return weight_; }
  /// [out], or undefined.
  Var bias() const { return bias_ ? bias_->var() : Var(); }
  /// The bias, or a constant of zeros.
  Var bias_or_zeros() const;

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
};

/// second(activation(first(x))), in less memory.
Var feed_forward(const Linear& first, Activation activation, const Linear& second, const Var& x);

/// Declares linear layers in → out under `scope`, one for each name. Their weights are adjacent in
/// the store, and so are their biases, for joint_linear.
std::vector<Linear> adjacent_linears(const Scope& scope, const std::vector<std::string>& names,
                                     std::int64_t in, std::int64_t out, bool bias);

/// Layer normalisation over the last axis (Ba et al., arXiv 1607.06450).
class LayerNorm {
 public:
  /// Declares weight and bias [width] under `scope`.
  LayerNorm(const Scope& scope, std::int64_t width, double epsilon, bool bias = true)
      : weight_(scope.parameter("weight", {width}, {Init::Kind::ones}, false)), epsilon_(epsilon) {
    require(epsilon > 0, "epsilon {}; expected a number greater than 0", epsilon);
    if (bias) bias_ = scope.parameter("bias", {width}, {Init::Kind::zeros}, false);
  }
  /// Normalises x […, width].
  Var operator()(const Var& x) const { return layer_norm(x, weight_, bias(), epsilon_); }
  /// Normalises residual + dropout(x).
  Var operator()(const Var& x, const Var& residual, const DropoutOptions& dropout) const {
    return residual_layer_norm(x, residual, dropout, weight_, bias(), epsilon_);
  }

 private:
  Var bias() const { return bias_ ? bias_->var() : Var(); }

  Parameter weight_;
  std::optional<Parameter> bias_;
  double epsilon_;
};

/// Dropout with its own random stream, active in training only.
class Dropout {
 public:
  /// Drops elements with probability p.
  Dropout(const Scope& scope, double p) : p_(p), site_(scope.next_dropout_site()) {
    require(p >= 0 && p < 1, "dropout probability {}; expected at least 0 and below 1", p);
  }
  /// x [b, …] with elements dropped in training, else x itself.
  Var operator()(const Var& x, const RunContext& run) const {
    return run.training ? dropout(x, p_, {run.seed, run.step, site_}, run.sample_ids) : x;
  }
  /// Options for ops that include a dropout.
  DropoutOptions options(const RunContext& run) const {
    return run.training ? DropoutOptions{p_, {run.seed, run.step, site_}, run.sample_ids}
                        : DropoutOptions{};
  }

 private:
  double p_;
  std::uint32_t site_;
};

/// Applies an activation element-wise.
Var activate(Activation activation, const Var& x);

}  // namespace nystrom
