#include "core/cuda/attention/cudnn_graph.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/cuda/stream.h"

namespace nystrom::cuda::cudnn {
namespace {

/// The oldest version that plans were tested with. Some older versions compute wrong results, as
/// 9.15 does for lengths that 128 does not divide.
constexpr std::size_t oldest = 91900;

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Library load() {
  Library made;
  void* file = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (!file) {
    made.text = ::dlerror();
    return made;
  }
  bool complete = true;
  const auto find = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(file, name));
    complete = complete && function;
  };
  find(made.version, "cudnnGetVersion");
  find(made.error_string, "cudnnGetErrorString");
  find(made.create, "cudnnCreate");
  find(made.set_stream, "cudnnSetStream");
  find(made.create_descriptor, "cudnnBackendCreateDescriptor");
  find(made.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(made.set_attribute, "cudnnBackendSetAttribute");
  find(made.get_attribute, "cudnnBackendGetAttribute");
  find(made.finalize, "cudnnBackendFinalize");
  find(made.execute, "cudnnBackendExecute");
  const std::size_t version = made.version ? made.version() : 0;
  made.usable = complete && version >= oldest;
  made.text = version_text(version);
  if (version < oldest)
    made.text += fmt::format(" is older than {}", version_text(oldest));
  else if (!complete)
    made.text += " lacks functions of its graph interface";
  return made;
}

cudnnDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/// The engines for a graph on a GPU, fastest first, by cuDNN's heuristics.
std::vector<Descriptor> configurations(const Descriptor& graph, const Target& target) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (target.device) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  heuristics.finalize();
  const std::int64_t most =
      heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < most; ++i)
    raw.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  const std::int64_t count = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, most, raw.data());
  while (found.size() > static_cast<std::size_t>(count)) found.pop_back();
  return found;
}

// Plans that run are made with a handle, as in NVIDIA's frontend, although the headers call that
// deprecated.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void name_target(Descriptor& graph, const Target& target) {
  if (target.handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
}

Descriptor executable_of(const Descriptor& configuration, const Target& target) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (target.handle) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  if (target.device) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
  plan.finalize();
  return plan;
}
#pragma GCC diagnostic pop

}  // namespace

const Library& library() {
  static const Library instance = load();
  return instance;
}

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(fmt::format("{}: {}", what, library().error_string(status)));
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(library().create_descriptor(type, &raw_), "asking cuDNN");
}

Descriptor::Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}

Descriptor::~Descriptor() {
  if (raw_) library().destroy_descriptor(raw_);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            std::int64_t count, const void* values) {
  check(library().set_attribute(raw_, name, type, count, values), "describing a graph to cuDNN");
  return *this;
}

Descriptor& Descriptor::finalize() {
  check(library().finalize(raw_), "asking cuDNN");
  return *this;
}

std::int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             std::int64_t room, void* values) const {
  std::int64_t count = 0;
  check(library().get_attribute(raw_, name, type, room, &count, values), "asking cuDNN");
  return count;
}

Target::Target(const std::string& description) : device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
  device->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
              static_cast<std::int64_t>(description.size()), description.data());
  device->finalize();
}

void Plan::run(cudnnHandle_t handle, std::span<const Binding> bindings, void* memory) const {
  std::vector<std::int64_t> ids;
  std::vector<const void*> data;
  for (const auto& [id, memory_of_id] : bindings) {
    ids.push_back(id);
    data.push_back(memory_of_id);
  }
  const auto count = static_cast<std::int64_t>(bindings.size());
  Descriptor arguments(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  arguments.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  arguments.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
  arguments.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, memory);
  arguments.finalize();
  count_launch();
  check(library().execute(handle, executable.raw(), arguments.raw()), "running a graph of cuDNN");
}

Descriptor& Graph::add(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }

void Graph::add_operation(cudnnBackendDescriptorType_t type,
                          std::initializer_list<Attribute> attributes) {
  Descriptor& operation = add(type);
  for (const auto& [name, value] : attributes)
    if (value) operation.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value);
  operations_.push_back(operation.finalize().raw());
}

Node Graph::tensor(std::int64_t id, DType type, std::span<const std::int64_t, 4> shape,
                   std::span<const std::int64_t, 4> stride,
                   std::optional<cudnnBackendAttributeName_t> kind) {
  Descriptor& made = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(type));
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.data());
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride.data());
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
           std::int64_t{type == DType::bf16 ? 16 : 4});
  if (kind) made.set(*kind, CUDNN_TYPE_BOOLEAN, true);
  made.finalize();
  Node node{};
  std::ranges::copy(shape, node.shape);
  std::ranges::copy(stride, node.stride);
  node.descriptor = made.raw();
  return node;
}

Node Graph::memory(std::int64_t id, const ViewBase& view) {
  return tensor(id, view.dtype, std::span<const std::int64_t, 4>(view.shape, 4),
                std::span<const std::int64_t, 4>(view.stride, 4), {});
}

Node Graph::scalar(std::int64_t id) {
  constexpr std::int64_t ones[4] = {1, 1, 1, 1};
  return tensor(id, DType::f32, ones, ones, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

Node Graph::internal(DType type, std::int64_t b, std::int64_t h, std::int64_t rows,
                     std::int64_t columns) {
  const std::int64_t shape[4] = {b, h, rows, columns},
                     stride[4] = {h * rows * columns, rows * columns, columns, 1};
  return tensor(next_id_++, type, shape, stride, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

Node Graph::internal(const Node& x, DType type) {
  return internal(type, x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
}

Node Graph::pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node* y, const Node& result) {
  Descriptor& kind = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
  add_operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind.raw()},
                 {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor},
                 {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, y ? y->descriptor : nullptr},
                 {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result.descriptor}});
  return result;
}

Node Graph::pointwise(cudnnPointwiseMode_t mode, const Node& x) {
  return pointwise(mode, x, nullptr, internal(x, DType::f32));
}
Node Graph::pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node& y) {
  return pointwise(mode, x, &y, internal(x, DType::f32));
}
Node Graph::pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node& y, const Node& result) {
  return pointwise(mode, x, &y, result);
}

Node Graph::reduce(cudnnReduceTensorOp_t op, const Node& x) {
  const Node result = internal(DType::f32, x.shape[0], x.shape[1], x.shape[2], 1);
  Descriptor& kind = add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
  add_operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                {{CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind.raw()},
                 {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor},
                 {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result.descriptor}});
  return result;
}

Node Graph::matmul(const Node& a, const Node& b) {
  return matmul(a, b, internal(DType::f32, a.shape[0], a.shape[1], a.shape[2], b.shape[3]));
}

Node Graph::matmul(const Node& a, const Node& b, const Node& result) {
  Descriptor& kind = add(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
  add_operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                {{CUDNN_ATTR_OPERATION_MATMUL_DESC, kind.raw()},
                 {CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor},
                 {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor},
                 {CUDNN_ATTR_OPERATION_MATMUL_CDESC, result.descriptor}});
  return result;
}

Node Graph::transpose(const Node& x) {
  const std::int64_t shape[4] = {x.shape[0], x.shape[1], x.shape[3], x.shape[2]};
  const std::int64_t stride[4] = {x.stride[0], x.stride[1], x.stride[3], x.stride[2]};
  const Node result = tensor(next_id_++, DType::bf16, shape, stride, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  add_operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
                {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor},
                 {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, result.descriptor}});
  return result;
}

Plan Graph::plan(const Target& target) && {
  Descriptor& graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations_.size()), operations_.data());
  name_target(graph, target);
  graph.finalize();
  std::string reason = "cuDNN has no engine for this graph";
  for (Descriptor& configuration : configurations(graph, target)) {
    try {
      Descriptor executable = executable_of(configuration, target);
      std::int64_t workspace = 0;
      executable.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace);
      parts_.push_back(std::move(configuration));
      return {std::move(parts_), std::move(executable), workspace};
    } catch (const Error& error) {  // this engine failed; the next may work
      reason = error.what();
    }
  }
  throw Error(reason);
}

}  // namespace nystrom::cuda::cudnn
