#include "train/export/onnx_modules.h"

#include <cmath>

#include "core/int8.h"

namespace nystrom {
namespace {

constexpr const char* words_name = "nystromformer.embeddings.word_embeddings.weight";

/// The values of parameter `name`, f32 on the CPU.
Tensor f32_values(const Model& model, const std::string& name) {
  return model.parameters().master(name).to(cpu_device).contiguous().cast(DType::f32);
}

// ---- Dense layers in int8 -----------------------------------------------------------------------

std::string scale_name(const std::string& weight) { return weight + "_scale"; }

/// Stores a parameter [rows, width] as int8 with one scale a row, and returns its name.
/// `transposed` stores it as [width, rows].
OnnxValue int8_weight(OnnxModules& modules, const std::string& name, bool transposed) {
  OnnxGraph& graph = modules.graph;
  if (graph.has_weight(name)) return name;
  const Tensor matrix = f32_values(modules.model, name);
  const std::int64_t rows = matrix.dim(0), width = matrix.dim(1);
  const Int8Rows rounded = to_int8_rows(matrix);
  std::string bytes(rounded.values.size(), '\0');
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const std::int64_t place = transposed ? i % width * rows + i / width : i;
    bytes[static_cast<std::size_t>(place)] =
        static_cast<char>(rounded.values[static_cast<std::size_t>(i)]);
  }
  f32_weight(graph, scale_name(name), rounded.scales);
  return graph.weight(name, OnnxType::i8,
                      transposed ? std::vector{width, rows} : std::vector{rows, width},
                      std::move(bytes));
}

/// x w for x […, in] and int8 w [in, out] with one scale for each column.
OnnxValue int8_product(OnnxModules& modules, const OnnxValue& x, const OnnxValue& w,
                       const OnnxValue& scales) {
  OnnxGraph& graph = modules.graph;
  std::vector<OnnxValue>& whole = modules.quantised[x];
  if (whole.empty()) whole = graph.outputs(3, "DynamicQuantizeLinear", {x});
  const OnnxValue sums = graph("MatMulInteger", {whole[0], w, whole[2]});
  return graph("Mul", {graph.cast(sums, OnnxType::f32), graph("Mul", {whole[1], scales})});
}

// ---- Activations --------------------------------------------------------------------------------

/// x (1 + erf(x / √2)) / 2.
OnnxValue gelu(OnnxGraph& graph, const OnnxValue& x) {
  const OnnxValue erf = graph("Erf", {graph("Div", {x, graph.number(std::sqrt(2.0))})});
  const OnnxValue twice = graph("Mul", {x, graph("Add", {erf, graph.number(1)})});
  return graph("Mul", {twice, graph.number(0.5)});
}

/// x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, in the order that runtimes know as one operator.
OnnxValue gelu_new(OnnxGraph& graph, const OnnxValue& x) {
  const OnnxValue cube = graph("Pow", {x, graph.number(3)});
  const OnnxValue sum = graph("Add", {x, graph("Mul", {cube, graph.number(0.044715)})});
  const OnnxValue tanh = graph("Tanh", {graph("Mul", {sum, graph.number(0.7978845608028654)})});
  const OnnxValue half = graph("Mul", {x, graph.number(0.5)});
  return graph("Mul", {half, graph("Add", {tanh, graph.number(1)})});
}

}  // namespace

OnnxValue f32_weight(OnnxGraph& graph, const std::string& name, const Tensor& values) {
  if (graph.has_weight(name)) return name;
  return graph.weight(name, OnnxType::f32, {values.shape().begin(), values.shape().end()},
                      std::string(reinterpret_cast<const char*>(values.data<float>()),
                                  static_cast<std::size_t>(values.bytes())));
}

OnnxValue OnnxModules::parameter(std::string_view name) {
  return f32_weight(graph, graph.path(name), f32_values(model, graph.path(name)));
}

/// x Wᵀ for the weight of the present module, which is stored as [in, out].
OnnxValue OnnxModules::product(const OnnxValue& x) {
  const std::string weight = graph.path("weight");
  if (int8) {
    const OnnxValue w = int8_weight(*this, weight, true);
    return int8_product(*this, x, w, scale_name(weight));
  }
  if (!graph.has_weight(weight))
    f32_weight(graph, weight, f32_values(model, weight).transpose(0, 1).contiguous());
  return graph("MatMul", {x, weight});
}

OnnxValue OnnxModules::linear(const OnnxValue& x, std::string_view name) {
  const auto module = graph.enter(name);
  const OnnxValue y = product(x);
  return has_bias() ? graph("Add", {y, parameter("bias")}) : y;
}

bool OnnxModules::has_bias() const { return model.parameters().has(graph.path("bias")); }

OnnxValue OnnxModules::layer_norm(const OnnxValue& x, std::string_view name) {
  const auto module = graph.enter(name);
  std::vector<OnnxValue> inputs{x, parameter("weight")};
  if (has_bias()) inputs.push_back(parameter("bias"));
  return graph("LayerNormalization", inputs,
               {{"axis", -1}, {"epsilon", model.config().layer_norm_eps}});
}

OnnxValue OnnxModules::activate(const OnnxValue& x, Activation activation) {
  switch (activation) {
    case Activation::gelu: return gelu(graph, x);
    case Activation::gelu_new: return gelu_new(graph, x);
    case Activation::silu: return graph("Mul", {x, graph("Sigmoid", {x})});
    case Activation::relu: return graph("Relu", {x});
    case Activation::tanh: return graph("Tanh", {x});
    case Activation::linear: break;
  }
  return x;
}

OnnxValue OnnxModules::embed_words(const OnnxValue& ids) {
  const auto module = graph.enter("word_embeddings");
  if (!int8) return graph("Gather", {parameter("weight"), ids});
  const OnnxValue rows = graph("Gather", {int8_weight(*this, words_name, false), ids});
  const OnnxValue floats = graph.cast(rows, OnnxType::f32);
  const OnnxValue scales = graph("Gather", {scale_name(words_name), ids});
  return graph("Mul", {floats, graph("Unsqueeze", {scales, graph.integers({-1})})});
}

OnnxValue OnnxModules::decode_words(const OnnxValue& x) {
  if (!model.config().tie_word_embeddings) return product(x);
  const OnnxValue columns =
      graph("Transpose", {words_name}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  return int8 ? int8_product(*this, x, columns, scale_name(words_name))
              : graph("MatMul", {x, columns});
}

void round_to_int8(Model& model) {
  for (const Parameter& parameter : model.parameters().parameters()) {
    const std::string& name = parameter.name();
    const bool other = parameter.shape().rank() != 2 || name.find("_projection.") != name.npos ||
                       name.find("position_embeddings") != name.npos ||
                       name.find("token_type_embeddings") != name.npos;
    if (!other) model.parameters().round_to_int8(name);
  }
}

}  // namespace nystrom
