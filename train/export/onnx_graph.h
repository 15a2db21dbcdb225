// A builder of ONNX graphs: nodes that are named by modules, weights, and the file.
//
// It writes protobuf's wire format itself. libonnx brings a protobuf that cannot live in one
// program with libsentencepiece, which exports a protobuf of its own on Debian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nystrom {

/// The element types of values, with ONNX's numbers.
enum class OnnxType { f32 = 1, i8 = 3, i64 = 7, boolean = 9 };

/// The name of a value: of an input, a weight or a node's output.
using OnnxValue = std::string;
/// An attribute of a node.
using OnnxAttribute = std::variant<std::int64_t, double, std::vector<std::int64_t>>;
/// Attributes by name.
using OnnxAttributes = std::vector<std::pair<const char*, OnnxAttribute>>;
/// A dimension of an input or output: a number, or a name where any number will do.
using OnnxDimension = std::variant<std::int64_t, std::string>;
/// The dimensions of an input or output.
using OnnxShape = std::vector<OnnxDimension>;

/// A graph of opset 17 under construction.
class OnnxGraph {
 public:
  /// `description` is for people who open the file.
  OnnxGraph(std::string name, std::string description)
      : name_(std::move(name)), description_(std::move(description)) {}

  /// Nodes get the name of this module while the object lives.
  class Module {
   public:
    Module(OnnxGraph& graph, std::string_view name);
    ~Module();
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

   private:
    OnnxGraph& graph_;
    std::size_t length_;  // of the path outside
  };
  /// Enters module `name` ("attention.self") inside the present one.
  [[nodiscard]] Module enter(std::string_view name) { return {*this, name}; }
  /// The path of `name` in the present module, "nystromformer.encoder.layer.0.NAME".
  std::string path(std::string_view name) const;

  /// Declares an input.
  OnnxValue input(const std::string& name, OnnxType type, const OnnxShape& shape);
  /// Makes `value` an output and gives it this name, which is the caller's name of it from then on.
  void output(const OnnxValue& value, const std::string& name, const OnnxShape& shape);

  bool has_weight(const std::string& name) const { return values_.contains(name); }
  /// Adds a weight; `bytes` are its elements in little-endian order.
  OnnxValue weight(const std::string& name, OnnxType type, const std::vector<std::int64_t>& shape,
                   std::string bytes);
  /// A constant with one element, named by its value.
  OnnxValue number(double value);
  /// A constant [] i64.
  OnnxValue integer(std::int64_t value);
  /// A constant [values] i64.
  OnnxValue integers(const std::vector<std::int64_t>& values);

  /// Adds a node of operator `op` to the present module, and returns its output. Throws an Error
  /// for an input that is no value of the graph.
  OnnxValue operator()(const char* op, const std::vector<OnnxValue>& inputs,
                       const OnnxAttributes& attributes = {});
  /// The same with several outputs.
  std::vector<OnnxValue> outputs(std::size_t count, const char* op,
                                 const std::vector<OnnxValue>& inputs,
                                 const OnnxAttributes& attributes = {});

  /// x in another type, by a node of the present module.
  OnnxValue cast(const OnnxValue& x, OnnxType type) {
    return (*this)("Cast", {x}, {{"to", static_cast<std::int64_t>(type)}});
  }

  /// Writes the file, without nodes and weights that no output needs. If all weights together take
  /// more than `max_bytes`, those of 1 KiB and more go to a second file, `file`_data. The graph
  /// cannot be used afterwards. Throws an InputError when the system refuses.
  void save(const std::filesystem::path& file, std::int64_t max_bytes);

 private:
  struct Node {
    std::string op, name;
    std::vector<OnnxValue> inputs, outputs;
    OnnxAttributes attributes;
  };
  struct Weight {
    std::string name;
    OnnxType type;
    std::vector<std::int64_t> shape;
    std::string bytes;
  };
  OnnxValue constant(const std::string& name, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& values);
  void define(const OnnxValue& value);
  void remove_unused();
  static std::string message(const Node& node);

  std::string name_, description_, path_;
  std::vector<Node> nodes_;
  std::vector<Weight> weights_;
  std::vector<std::pair<std::string, std::string>> inputs_, outputs_;  // name, message
  std::set<OnnxValue> values_;                                         // all that nodes may read
  std::map<std::string, int> node_names_;  // how many nodes wanted a name
};

}  // namespace nystrom
