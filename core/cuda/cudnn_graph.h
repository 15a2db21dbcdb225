// cuDNN's graphs: operations on tensors, of which it makes one kernel or a few. Through its C
// interface
// (https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html), loaded
// when first asked for: programs start and run without it.
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

/// The functions of cuDNN that are called here.
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
  std::string text;  ///< its version, or why it is not usable
};
const Library& library();

/// Throws Error with cuDNN's words unless `status` is success.
void check(cudnnStatus_t status, const char* what);

/// One of cuDNN's objects. Every function throws Error where cuDNN refuses.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

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
  Descriptor& finalize();
  /// Writes up to `room` values and returns how many there are. Descriptors must have been made
  /// before.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t room, void* values) const;

  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// The GPU that a plan is made for: a handle's, or one that is only described, by JSON as
/// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION gives it; plans for the latter cannot run here.
struct Target {
  explicit Target(cudnnHandle_t of_handle) : handle(of_handle) {}
  explicit Target(const std::string& description);

  cudnnHandle_t handle = nullptr;
  std::optional<Descriptor> device;
};

/// A tensor of a graph.
struct Node {
  std::int64_t shape[4], stride[4];
  cudnnBackendDescriptor_t descriptor;
};

/// Memory of one of a graph's tensors when it runs.
struct Binding {
  std::int64_t id;
  const void* data;
};

/// A graph made executable.
struct Plan {
  std::vector<Descriptor> parts;  ///< what it was made from lives as long
  Descriptor executable;
  std::int64_t workspace;  ///< bytes of memory that it needs while it runs

  void run(cudnnHandle_t handle, std::span<const Binding> bindings, void* memory) const;
};

/// Built operation by operation. A result that is not directed elsewhere is f32 and never leaves
/// the graph; everything is summed in f32.
class Graph {
 public:
  /// Memory bound at run time: rank 4, bf16 or f32, bf16 aligned to 16 bytes.
  Node memory(std::int64_t id, const ViewBase& view);
  /// One f32 on the host, bound at run time.
  Node scalar(std::int64_t id);
  /// A result within the graph, of the shape of `x`.
  Node internal(const Node& x, DType type);

  Node pointwise(cudnnPointwiseMode_t mode, const Node& x);
  Node pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node& y);
  Node pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node& y, const Node& result);
  /// [b, h, m, n] → [b, h, m, 1].
  Node reduce(cudnnReduceTensorOp_t op, const Node& x);
  /// [b, h, m, k] · [b, h, k, n].
  Node matmul(const Node& a, const Node& b);
  Node matmul(const Node& a, const Node& b, const Node& result);
  /// The last two axes swapped, in bf16.
  Node transpose(const Node& x);

  /// Error where no engine takes the graph.
  Plan plan(const Target& target) &&;

 private:
  Node tensor(std::int64_t id, DType type, std::span<const std::int64_t, 4> shape,
              std::span<const std::int64_t, 4> stride,
              std::optional<cudnnBackendAttributeName_t> kind);
  Node internal(DType type, std::int64_t b, std::int64_t h, std::int64_t rows,
                std::int64_t columns);
  Descriptor& add(cudnnBackendDescriptorType_t type);
  using Attribute =
      std::pair<cudnnBackendAttributeName_t, cudnnBackendDescriptor_t>;  // a null one is left out
  void add_operation(cudnnBackendDescriptorType_t type,
                     std::initializer_list<Attribute> attributes);
  Node pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node* y, const Node& result);

  std::vector<Descriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::int64_t next_id_ = 1000;  // of results within the graph; bound ones are below
};

}  // namespace nystrom::cuda::cudnn
