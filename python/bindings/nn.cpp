// nystrom.nn and nystrom.optim: parameters, layers and the optimizer.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "docs.h"
#include "nn/encoder.h"
#include "nn/nystrom.h"
#include "python/bindings/bindings.h"
#include "train/config/config_io.h"
#include "train/export/forward.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"

namespace nystrom::python {
namespace {

RunContext context_of(bool training, const std::optional<Array>& sample_ids, std::uint64_t seed,
                      const std::optional<std::uint64_t>& step) {
  RunContext run;
  run.training = training;
  run.seed = seed;
  run.step = step.value_or(0);
  run.sample_ids = copy_of(sample_ids);
  require_input(!training || (run.sample_ids.defined() && step),
                "training needs sample_ids and step, the number of the update, which decide the "
                "dropout masks");
  return run;
}

void bind_parameters(nb::module_& nn) {
  nb::class_<Parameter>(nn, "Parameter", doc::Parameter)
      .def_prop_ro("name", &Parameter::name, doc::Parameter_name)
      .def_prop_ro(
          "value", [](const Parameter& parameter) { return parameter.var(); }, doc::Parameter_var)
      .def_prop_ro("decays", &Parameter::decays, doc::Parameter_decays);
  nb::class_<ParameterStore>(nn, "ParameterStore", doc::ParameterStore)
      .def(nb::init<>())
      .def(
          "scope", [](ParameterStore& store) { return Scope(store); }, nb::keep_alive<0, 1>(),
          doc::Scope_Scope)
      .def(
          "allocate",
          [](ParameterStore& store, const std::string& dtype, bool training) {
            store.allocate(dtype_called(dtype),
                           training ? StoreMode::training : StoreMode::inference);
          },
          "dtype"_a = "f32", "training"_a = true, doc::ParameterStore_allocate)
      .def(
          "initialise",
          [](ParameterStore& store, std::uint64_t seed, double standard_deviation) {
            store.initialise(seed, standard_deviation);
          },
          "seed"_a, "standard_deviation"_a, doc::ParameterStore_initialise)
      .def(
          "set",
          [](ParameterStore& store, const std::string& name, const Array& values) {
            store.set(name, tensor_of(values).contiguous());
          },
          "name"_a, "values"_a, doc::ParameterStore_set)
      .def("parameters", &ParameterStore::parameters, doc::ParameterStore_parameters)
      .def("count", &ParameterStore::count, doc::ParameterStore_count);
  nb::class_<Scope>(nn, "Scope", doc::Scope)
      .def(
          "__truediv__", [](const Scope& scope, const std::string& name) { return scope / name; },
          "name"_a, nb::keep_alive<0, 1>(), "The scope `name` below this one.")
      .def_prop_ro("path", &Scope::path, doc::Scope_path)
      .def(
          "parameter",
          [](const Scope& scope, const std::string& name, const std::vector<std::int64_t>& shape,
             bool decay) { return scope.parameter(name, Shape(shape), {}, decay); },
          "name"_a, "shape"_a, "decay"_a = true, doc::Scope_parameter);
}

void bind_layers(nb::module_& nn) {
  nb::class_<Linear>(nn, "Linear", doc::Linear)
      .def(nb::init<const Scope&, std::int64_t, std::int64_t>(), "scope"_a, "inputs"_a, "outputs"_a,
           doc::Linear_Linear)
      .def(
          "__call__", [](const Linear& layer, const Var& x) { return layer(x); }, "x"_a,
          ReleaseLock())
      .def_prop_ro("weight", &Linear::weight, doc::Linear_weight)
      .def_prop_ro("bias", &Linear::bias, doc::Linear_bias);
  nb::class_<LayerNorm>(nn, "LayerNorm", doc::LayerNorm)
      .def(nb::init<const Scope&, std::int64_t, double>(), "scope"_a, "width"_a, "epsilon"_a = 1e-5,
           doc::LayerNorm_LayerNorm)
      .def(
          "__call__", [](const LayerNorm& layer, const Var& x) { return layer(x); }, "x"_a,
          ReleaseLock());
  nb::class_<Dropout>(nn, "Dropout", doc::Dropout)
      .def(nb::init<const Scope&, double>(), "scope"_a, "p"_a, doc::Dropout_Dropout)
      .def(
          "__call__",
          [](const Dropout& layer, const Var& x, bool training,
             const std::optional<Array>& sample_ids, std::uint64_t seed,
             const std::optional<std::uint64_t>& step) {
            return layer(x, context_of(training, sample_ids, seed, step));
          },
          "x"_a, "training"_a = false, "sample_ids"_a = nb::none(), "seed"_a = 0,
          "step"_a = nb::none(), ReleaseLock());
}

/// An encoder that knows its configuration, from options of the section model.
class ConfiguredEncoder {
 public:
  ConfiguredEncoder(const Scope& scope, const std::vector<std::string>& options)
      : config_(configured(options)), encoder_(scope, config_) {}
  ConfiguredEncoder(const ConfiguredEncoder&) = delete;
  ConfiguredEncoder& operator=(const ConfiguredEncoder&) = delete;

  Var operator()(const Array& input_ids, const std::optional<Array>& attention_mask, bool training,
                 const std::optional<Array>& sample_ids, std::uint64_t seed,
                 const std::optional<std::uint64_t>& step) const {
    const RunContext run = context_of(training, sample_ids, seed, step);
    NamedTensors tensors{{"input_ids", copy_of(input_ids)}};
    if (attention_mask) tensors["attention_mask"] = copy_of(*attention_mask);
    const ModelInput input = model_input(config_, tensors);
    const Shape& shape = input.input_ids.shape();
    const Ragged batch = attention_mask ? Ragged(input.attention_mask, cpu_device,
                                                 padding_of(config_, Padding::left_out))
                                        : Ragged(shape[0], shape[1]);
    return batch.in_places(encoder_(input, batch, run));
  }

 private:
  static ModelConfig configured(const std::vector<std::string>& options) {
    ModelConfig config;
    override_model(config, "model", options);
    return config;
  }

  ModelConfig config_;
  Encoder encoder_;
};

void bind_encoder(nb::module_& nn) {
  nb::class_<ConfiguredEncoder>(nn, "Encoder", doc::Encoder)
      .def(nb::init<const Scope&, const std::vector<std::string>&>(), "scope"_a, "options"_a,
           "`options` are those of the section model, each as text: hidden_size=64.")
      .def("__call__", &ConfiguredEncoder::operator(), "input_ids"_a,
           "attention_mask"_a = nb::none(), "training"_a = false, "sample_ids"_a = nb::none(),
           "seed"_a = 0, "step"_a = nb::none(), "The hidden states [b, n, hidden] of ids [b, n].",
           ReleaseLock());
}

void bind_optim(nb::module_& optim) {
  nb::class_<Optimizer>(optim, "AdamW",
                        "torch.optim.AdamW (Loshchilov and Hutter, ICLR 2019, arXiv 1711.05101), "
                        "over all parameters in one pass. Biases and norms do not decay.")
      .def(
          "__init__",
          [](Optimizer* self, ParameterStore& store, double weight_decay,
             const std::pair<double, double>& betas, double epsilon) {
            OptimizerOptions options;
            options.weight_decay = weight_decay;
            options.betas = {betas.first, betas.second};
            options.epsilon = epsilon;
            new (self) Optimizer(store, options);
          },
          "parameters"_a, "weight_decay"_a = 0.01, "betas"_a = std::pair(0.9, 0.999),
          "epsilon"_a = 1e-8, nb::keep_alive<1, 2>(), doc::Optimizer_Optimizer)
      .def("step", &Optimizer::step, "learning_rate"_a, "gradient_scale"_a = 1.0,
           doc::Optimizer_step, ReleaseLock())
      .def("zero_gradients", &Optimizer::zero_gradients, doc::Optimizer_zero_gradients,
           ReleaseLock())
      .def("gradient_norm", &Optimizer::gradient_norm, doc::Optimizer_gradient_norm, ReleaseLock())
      .def_prop_ro("steps_taken", &Optimizer::steps_taken, doc::Optimizer_steps_taken);
  optim.def("clip_factor", &clip_factor, "norm"_a, "limit"_a, doc::clip_factor);
}

}  // namespace

void bind_nn(nb::module_& module) {
  nb::module_ nn = module.def_submodule("nn", "Parameters and layers.");
  bind_parameters(nn);
  bind_layers(nn);
  bind_encoder(nn);
  nb::module_ optim = module.def_submodule("optim", "The optimizer.");
  bind_optim(optim);
}

}  // namespace nystrom::python
