// cuDNN graphs: operations on tensors that cuDNN compiles into one kernel or a few. They use its C
// interface
// (https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html). cuDNN
// is loaded at first use; programs start and run without it.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/view.h"

namespace nystrom::cuda::cudnn {

/// The functions of cuDNN that this program calls.
struct Library {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  bool usable = false;
  std::string text;  ///< its version, or the reason why it is not usable
};
/// The loaded library. The first call loads it.
const Library& library();

/// Throws an Error with cuDNN's message unless `status` is success. `what` names the action.
void check(cudnnStatus_t status, const char* what);

/// A cuDNN backend object. Every function throws an Error when cuDNN refuses.
class Descriptor {
 public:
  /// Creates an empty object.
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  /// Sets an attribute to `count` values.
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t count, const void* values);
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const T& value) {
    return set(name, type, 1, &value);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.raw_);
  }
  /// Finalizes the object after all attributes are set.
  Descriptor& finalize();
  /// Reads an attribute: writes up to `room` values and returns their total number. Descriptors
  /// must exist before.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t room, void* values) const;

  /// The cuDNN handle of the object.
  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// The GPU that a plan is made for: the GPU of a handle, or one described by JSON in the format of
/// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. Plans for a described GPU cannot run.
struct Target {
  /// The GPU of a handle, whose plans can run.
  explicit Target(cudnnHandle_t of_handle) : handle(of_handle) {}
  /// The GPU that `description` describes as JSON.
  explicit Target(const std::string& description);

  cudnnHandle_t handle = nullptr;
  std::optional<Descriptor> device;
};

/// A tensor of a graph.
struct Node {
  std::int64_t shape[4], stride[4];
  cudnnBackendDescriptor_t descriptor;
};

/// The id of a tensor, and its memory when the graph runs.
using Binding = std::pair<std::int64_t, const void*>;

/// An executable graph.
struct Plan {
  std::vector<Descriptor> parts;  ///< objects that the plan refers to
  Descriptor executable;
  std::int64_t workspace;  ///< bytes of working memory that run() needs

  /// Runs the graph on the handle's stream, with `memory` as its workspace.
  void run(cudnnHandle_t handle, std::span<const Binding> bindings, void* memory) const;
};

/// A graph that is built operation by operation. Results are f32 and internal to the graph, unless
/// a call names another result tensor. All sums are f32.
class Graph {
 public:
  /// A tensor in memory that is bound at run time: rank 4, bf16 or f32. bf16 is aligned to 16
  /// bytes.
  Node memory(std::int64_t id, const ViewBase& view);
  /// An f32 number on the host that is bound at run time.
  Node scalar(std::int64_t id);
  /// A result within the graph, with the shape of `x`.
  Node internal(const Node& x, DType type);

  /// Element-wise operations on tensors that broadcast.
  Node pointwise(cudnnPointwiseMode_t mode, const Node& x);
  Node pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node& y);
  Node pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node& y, const Node& result);
  /// A reduction over the last axis: [b, h, m, n] → [b, h, m, 1].
  Node reduce(cudnnReduceTensorOp_t op, const Node& x);
  /// The matrix product [b, h, m, k] · [b, h, k, n] → [b, h, m, n].
  Node matmul(const Node& a, const Node& b);
  Node matmul(const Node& a, const Node& b, const Node& result);
  /// x with its last two axes exchanged, in bf16.
  Node transpose(const Node& x);

  /// Makes the graph executable for `target`. Throws an Error when no cuDNN engine supports it.
  Plan plan(const Target& target) &&;

 private:
  Node tensor(std::int64_t id, DType type, std::span<const std::int64_t, 4> shape,
              std::span<const std::int64_t, 4> stride,
              std::optional<cudnnBackendAttributeName_t> kind);
  Node internal(DType type, std::int64_t b, std::int64_t h, std::int64_t rows,
                std::int64_t columns);
  Descriptor& add(cudnnBackendDescriptorType_t type);
  // Null descriptors are left out.
  using Attribute = std::pair<cudnnBackendAttributeName_t, cudnnBackendDescriptor_t>;
  void add_operation(cudnnBackendDescriptorType_t type,
                     std::initializer_list<Attribute> attributes);
  Node pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node* y, const Node& result);

  std::vector<Descriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::int64_t next_id_ = 1000;  // for results within the graph; ids of bound tensors are lower
};

}  // namespace nystrom::cuda::cudnn
