// The small modules everything else is made of.
#pragma once

#include <functional>

#include "autograd/ops.h"
#include "nn/model_config.h"
#include "nn/parameter_store.h"

namespace nystrom {

struct AttentionInputs;

/// What a forward pass needs to know beside its inputs.
struct RunContext {
  bool training = false;  ///< dropout on
  bool activation_checkpointing = false;
  std::uint64_t seed = 0, step = 0;  ///< with sample_ids decide the dropout masks
  Tensor sample_ids{};  ///< [b] i64: global index of each row's sample; needed when training
  /// Called by each layer with what its attention gets and gives (before the convolution), which it
  /// may exchange for the same value: for studies of the attention. The first layer comes first;
  /// with checkpointing there is a second call, the last one first, in backward.
  std::function<void(const AttentionInputs&, Var& output)> observe_attention = {};
  /// Called in backward when the gradients from this place of the slab to its end are final in this
  /// pass: layer by layer, the last one first.
  std::function<void(std::int64_t place)> gradients_final = {};
};

/// y = x Wᵀ + b.
class Linear {
 public:
  Linear(const Scope& scope, std::int64_t in, std::int64_t out)
      : weight_(scope.parameter("weight", {out, in})),
        bias_(scope.parameter("bias", {out}, {Init::Kind::zeros}, false)) {}
  Var operator()(const Var& x) const { return linear(x, weight_, bias_); }
  /// The same in the accumulate type. The last layer of a head: what decides is not rounded, so
  /// that there are no ties.
  Var unrounded(const Var& x) const { return linear_unrounded(x, weight_, bias_); }
  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  Parameter weight_, bias_;
};

class LayerNorm {
 public:
  LayerNorm(const Scope& scope, std::int64_t width, double epsilon)
      : weight_(scope.parameter("weight", {width}, {Init::Kind::ones}, false)),
        bias_(scope.parameter("bias", {width}, {Init::Kind::zeros}, false)),
        epsilon_(epsilon) {}
  Var operator()(const Var& x) const { return layer_norm(x, weight_, bias_, epsilon_); }
  /// Of residual + dropout(x).
  Var operator()(const Var& x, const Var& residual, const DropoutOptions& dropout) const {
    return residual_layer_norm(x, residual, dropout, weight_, bias_, epsilon_);
  }

 private:
  Parameter weight_, bias_;
  double epsilon_;
};

/// A dropout with a number of its own, active in training only.
class Dropout {
 public:
  Dropout(const Scope& scope, double p) : p_(p), site_(scope.next_dropout_site()) {}
  Var operator()(const Var& x, const RunContext& run) const {
    return run.training ? dropout(x, p_, {run.seed, run.step, site_}, run.sample_ids) : x;
  }
  /// The same, for ops that drop in passing.
  DropoutOptions options(const RunContext& run) const {
    return run.training ? DropoutOptions{p_, {run.seed, run.step, site_}, run.sample_ids}
                        : DropoutOptions{};
  }

 private:
  double p_;
  std::uint32_t site_;
};

/// gelu, gelu_new or relu.
Var activate(Activation activation, const Var& x);

}  // namespace nystrom
