#include "core/int8.h"
#include "train/export/onnx_modules.h"

namespace nystrom {
namespace {

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
  graph.weight(scale_name(name), OnnxType::f32, {rows}, f32_bytes(rounded.scales));
  return graph.weight(name, OnnxType::i8,
                      transposed ? std::vector{width, rows} : std::vector{rows, width},
                      std::move(bytes));
}

/// x w for x […, in] and int8 w [in, out] with one scale for each column.
OnnxValue int8_product(OnnxModules& modules, const OnnxValue& x, const OnnxValue& w,
                       const OnnxValue& scales) {
  OnnxGraph& graph = modules.graph;
  std::vector<OnnxValue>& whole = modules.quantised[x];  // values, scale, zero point
  if (whole.empty()) whole = graph.outputs(3, "DynamicQuantizeLinear", {x});
  const OnnxValue sums = graph("MatMulInteger", {whole[0], w, whole[2]});
  return graph("Mul", {graph.cast(sums, OnnxType::f32), graph("Mul", {whole[1], scales})});
}

}  // namespace

OnnxValue int8_linear(OnnxModules& modules, const OnnxValue& x, const std::string& weight) {
  const OnnxValue w = int8_weight(modules, weight, true);
  return int8_product(modules, x, w, scale_name(weight));
}

OnnxValue int8_rows(OnnxModules& modules, const OnnxValue& ids, const std::string& table) {
  OnnxGraph& graph = modules.graph;
  const OnnxValue rows = graph("Gather", {int8_weight(modules, table, false), ids});
  const OnnxValue floats = graph.cast(rows, OnnxType::f32);
  const OnnxValue scales = graph("Gather", {scale_name(table), ids});
  return graph("Mul", {floats, graph("Unsqueeze", {scales, graph.integers({-1})})});
}

OnnxValue int8_decode(OnnxModules& modules, const OnnxValue& x, const std::string& table) {
  const OnnxValue columns =
      modules.graph("Transpose", {table}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  return int8_product(modules, x, columns, scale_name(table));
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
