// The options of an optimizer and of its learning rate, which are also the sections `optimizer:`
// and `schedule:` of a configuration file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/fields.h"

namespace nystrom {

/// The optimizer's algorithm.
enum class OptimizerKind { adamw, lamb, muon };

/// Parameters with options of their own: an entry of `optimizer.groups`.
struct ParameterGroup {
  std::string parameters;
  double learning_rate_factor = 1;
  std::optional<double> weight_decay = std::nullopt;
  bool freeze = false;
  bool operator==(const ParameterGroup&) const = default;
};

template <class V>
void fields(V& v, ParameterGroup& c) {
  v(c.parameters, "parameters",
    "pattern of their names, as nystrom info lists them: * stands for any characters, ? for one, "
    "[0-3] for one of these");
  v(c.learning_rate_factor, "learning_rate_factor",
    "factor of the learning rate, beside that of layer_decay", positive);
  v(c.weight_decay, "weight_decay",
    "weight decay in place of the optimizer's; biases and layer normalisation have none all the "
    "same; null: the optimizer's",
    not_negative);
  v(c.freeze, "freeze", "leave them as they are: no gradients, no update, no weight decay");
}

/// The options of an Optimizer.
struct OptimizerOptions {
  OptimizerKind name = OptimizerKind::adamw;
  double learning_rate = 1e-4;
  double weight_decay = 0.01;
  std::vector<double> betas = {0.9, 0.999};
  double epsilon = 1e-8;
  double momentum = 0.95;
  std::optional<double> clip_norm = 1.0;
  std::optional<double> layer_decay = std::nullopt;
  std::vector<ParameterGroup> groups = {};
};

template <class V>
void fields(V& v, OptimizerOptions& c) {
  v(c.name, "name",
    "adamw: Adam with decoupled weight decay; lamb: the same with a trust ratio a parameter, for "
    "large batches; muon: matrices of the layers move by their momentum made orthogonal, and all "
    "else "
    "as under adamw, whose learning rates suit it");
  v(c.learning_rate, "learning_rate",
    "peak learning rate; without it fine-tuning chooses one by the width of the model", positive);
  v(c.weight_decay, "weight_decay", "weight decay; not of biases and layer normalisation",
    not_negative);
  v(c.betas, "betas", "decay of the first and the second moment", below_one);
  v(c.epsilon, "epsilon", "added to the root of the second moment", positive_in_f32);
  v(c.momentum, "momentum", "muon: decay of the momentum of matrices", below_one);
  v(c.clip_norm, "clip_norm", "largest norm of the whole gradient; null: no clipping", positive);
  v(c.layer_decay, "layer_decay",
    "factor of the learning rate from each layer to the one below. Heads and the final norm have "
    "the whole rate, the "
    "last layer of L has layer_decay times it, the first layer layer_decay^L, the embeddings "
    "layer_decay^(L + 1); null: all have the same",
    positive_probability);
  v(c.groups, "groups",
    "parameters with options of their own, such as [{parameters: \"*.conv.weight\", "
    "learning_rate_factor: 10}]; of several groups that match a parameter the last one applies");
}

/// The shape of the learning rate after the warm-up.
enum class Decay { linear, cosine, constant, wsd };

/// The options of the learning rate's schedule.
struct ScheduleOptions {
  std::optional<std::int64_t> warmup_steps;
  Decay decay = Decay::linear;
  std::optional<double> warmup_share = std::nullopt;
  std::optional<double> decay_share = std::nullopt;
};

template <class V>
void fields(V& v, ScheduleOptions& c) {
  v(c.warmup_steps, "warmup_steps",
    "steps in which the learning rate rises to its peak; null: warmup_share decides, and without "
    "that too a tenth of all steps, at most "
    "10000",
    not_negative);
  v(c.warmup_share, "warmup_share", "the same as a share of all steps, instead of warmup_steps",
    probability);
  v(c.decay, "decay",
    "of the learning rate after the warm-up. linear, cosine: towards zero; constant: none; wsd: "
    "none, and towards zero in the last steps (decay_share)");
  v(c.decay_share, "decay_share", "wsd: the share of all steps that decay; null: 0.1",
    positive_probability);
}

}  // namespace nystrom
