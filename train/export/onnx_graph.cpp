#include "train/export/onnx_graph.h"

#include <algorithm>
#include <memory>
#include <span>

#include "core/base/file_io.h"
#include "core/base/protobuf.h"
#include "core/check.h"

namespace nystrom {
namespace {

using protobuf::bytes, protobuf::integer;

constexpr std::int64_t ir_version = 8, opset = 17;
/// Readers map the second file into memory, and want weights to begin at pages.
constexpr std::int64_t page = 4096;
constexpr std::int64_t smallest_outside = 1024;

template <class T>
std::string bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// The numbers of fields are those of onnx.proto.

/// A ValueInfoProto: an input or output.
std::string value_info(const std::string& name, OnnxType type, const OnnxShape& shape) {
  std::string dimensions;
  for (const OnnxDimension& each : shape) {
    const auto* size = std::get_if<std::int64_t>(&each);
    dimensions += bytes(1, size ? integer(1, *size) : bytes(2, std::get<std::string>(each)));
  }
  const std::string tensor = integer(1, static_cast<int>(type)) + bytes(2, dimensions);
  return bytes(1, name) + bytes(2, bytes(1, tensor));
}

/// An AttributeProto.
std::string attribute_message(const char* name, const OnnxAttribute& attribute) {
  enum Type { number = 1, whole = 2, wholes = 7 };
  const std::string front = bytes(1, name);
  if (const auto* value = std::get_if<std::int64_t>(&attribute))
    return front + integer(3, *value) + integer(20, whole);
  if (const auto* value = std::get_if<double>(&attribute))
    return front + protobuf::number(2, static_cast<float>(*value)) + integer(20, number);
  std::string values;
  for (const std::int64_t each : std::get<2>(attribute)) values += integer(8, each);
  return front + values + integer(20, wholes);
}

/// Appends `weight` to the second file. Returns the fields that say where it is.
std::string write_outside(OutputFile& file, std::int64_t& size, const std::string& name,
                          const std::string& weight) {
  const std::string gap(static_cast<std::size_t>((page - size % page) % page), '\0');
  file.write(gap);
  file.write(weight);
  const std::int64_t begin = size + static_cast<std::int64_t>(gap.size());
  size = begin + static_cast<std::int64_t>(weight.size());
  constexpr int outside = 1;
  std::string fields;
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", name},
                                   {"offset", std::to_string(begin)},
                                   {"length", std::to_string(weight.size())}})
    fields += bytes(13, bytes(1, key) + bytes(2, value));
  return fields + integer(14, outside);
}

}  // namespace

OnnxGraph::Module::Module(OnnxGraph& graph, std::string_view name)
    : graph_(graph), length_(graph.path_.size()) {
  graph.path_ = graph.path(name);
}

OnnxGraph::Module::~Module() { graph_.path_.resize(length_); }

std::string OnnxGraph::path(std::string_view name) const {
  return path_ + (path_.empty() ? "" : ".") + std::string(name);
}

void OnnxGraph::define(const OnnxValue& value) {
  require(values_.insert(value).second, "two values of the graph are named {}", value);
}

OnnxValue OnnxGraph::input(const std::string& name, OnnxType type, const OnnxShape& shape) {
  define(name);
  inputs_.emplace_back(name, value_info(name, type, shape));
  return name;
}

void OnnxGraph::output(const OnnxValue& value, const std::string& name, const OnnxShape& shape) {
  require(values_.contains(value), "the graph has no value {}", value);
  define(name);
  outputs_.emplace_back(name, value_info(name, OnnxType::f32, shape));
  for (Node& node : nodes_) {
    std::replace(node.inputs.begin(), node.inputs.end(), value, name);
    std::replace(node.outputs.begin(), node.outputs.end(), value, name);
  }
}

OnnxValue OnnxGraph::weight(const std::string& name, OnnxType type,
                            const std::vector<std::int64_t>& shape, std::string bytes) {
  define(name);
  weights_.push_back({name, type, shape, std::move(bytes)});
  return name;
}

OnnxValue OnnxGraph::number(double value) {
  const std::string name = fmt::format("float {}", value);
  const auto rounded = static_cast<float>(value);
  return has_weight(name)
             ? name
             : weight(name, OnnxType::f32, {}, bytes_of(std::span<const float>(&rounded, 1)));
}

OnnxValue OnnxGraph::constant(const std::string& name, const std::vector<std::int64_t>& shape,
                              const std::vector<std::int64_t>& values) {
  return has_weight(name)
             ? name
             : weight(name, OnnxType::i64, shape, bytes_of(std::span<const std::int64_t>(values)));
}

OnnxValue OnnxGraph::integer(std::int64_t value) {
  return constant(fmt::format("int64 {}", value), {}, {value});
}

OnnxValue OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  return constant(fmt::format("int64 [{}]", fmt::join(values, ", ")),
                  {static_cast<std::int64_t>(values.size())}, values);
}

OnnxValue OnnxGraph::operator()(const char* op, const std::vector<OnnxValue>& inputs,
                                const OnnxAttributes& attributes) {
  return outputs(1, op, inputs, attributes)[0];
}

std::vector<OnnxValue> OnnxGraph::outputs(std::size_t count, const char* op,
                                          const std::vector<OnnxValue>& inputs,
                                          const OnnxAttributes& attributes) {
  Node node{op, path(op), inputs, {}, attributes};
  if (const int others = node_names_[node.name]++; others > 0)
    node.name += fmt::format("_{}", others);
  for (const OnnxValue& each : inputs)
    require(values_.contains(each), "{}: the graph has no value '{}'", node.name, each);
  for (std::size_t i = 0; i < count; ++i) {
    node.outputs.push_back(count == 1 ? node.name : fmt::format("{}.{}", node.name, i));
    define(node.outputs.back());
  }
  nodes_.push_back(node);
  return node.outputs;
}

void OnnxGraph::remove_unused() {
  std::set<std::string> used;
  for (const auto& [name, message] : outputs_) used.insert(name);
  std::vector<Node> kept;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(),
                     [&](const OnnxValue& each) { return used.contains(each); }))
      continue;
    used.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  nodes_.assign(kept.rbegin(), kept.rend());
  std::erase_if(weights_, [&](const Weight& each) { return !used.contains(each.name); });
}

/// A NodeProto.
std::string OnnxGraph::message(const Node& node) {
  std::string fields;
  for (const OnnxValue& each : node.inputs) fields += bytes(1, each);
  for (const OnnxValue& each : node.outputs) fields += bytes(2, each);
  fields += bytes(3, node.name) + bytes(4, node.op);
  for (const auto& [name, value] : node.attributes)
    fields += bytes(5, attribute_message(name, value));
  return fields;
}

void OnnxGraph::save(const std::filesystem::path& file, std::int64_t max_bytes) {
  remove_unused();
  std::int64_t total = 0, outside = 0;
  for (const Weight& each : weights_) total += std::ssize(each.bytes);
  const std::string second = file.filename().string() + "_data";
  std::unique_ptr<OutputFile> data;
  if (total > max_bytes) data = std::make_unique<OutputFile>(file.parent_path() / second);

  std::string graph;
  for (const Node& node : nodes_) graph += bytes(1, message(node));
  graph += bytes(2, name_);
  for (const auto& [name, info] : inputs_) graph += bytes(11, info);
  for (const auto& [name, info] : outputs_) graph += bytes(12, info);
  // A TensorProto consists of `fields` and, inside the file, of the bytes of its weight.
  std::vector<std::string> fields;
  std::size_t graph_size = graph.size();
  for (Weight& each : weights_) {
    std::string tensor;
    for (const std::int64_t size : each.shape) tensor += protobuf::integer(1, size);
    tensor += protobuf::integer(2, static_cast<int>(each.type)) + bytes(8, each.name);
    if (data && std::ssize(each.bytes) >= smallest_outside) {
      tensor += write_outside(*data, outside, second, std::exchange(each.bytes, {}));
    } else {
      tensor += protobuf::head(9, each.bytes.size());
    }
    fields.push_back(protobuf::head(5, tensor.size() + each.bytes.size()) + tensor);
    graph_size += fields.back().size() + each.bytes.size();
  }
  if (data) data->commit();

  OutputFile model(file);
  model.write(protobuf::integer(1, ir_version) + bytes(2, "nystrom") + bytes(3, NYSTROM_VERSION) +
              bytes(6, description_) + bytes(8, bytes(1, "") + protobuf::integer(2, opset)) +
              protobuf::head(7, graph_size) + graph);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    model.write(fields[i]);
    model.write(weights_[i].bytes);
  }
  model.commit();
}

}  // namespace nystrom
