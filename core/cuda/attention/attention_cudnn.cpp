#include "core/cuda/attention/attention_forms.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/cuda/attention/attention_graphs.h"
#include "core/cuda/runtime.h"
#include "core/cuda/stream.h"

namespace nystrom::cuda {
namespace {

/// The largest size of score matrices in the backward pass, which keeps one in bf16 for each head.
/// Larger work is divided by samples, then by heads.
constexpr std::int64_t max_workspace = std::int64_t{1} << 28;

std::int64_t bytes_of_scores(std::int64_t samples, std::int64_t heads, std::int64_t length) {
  return samples * heads * length * length * 2;
}

/// Whether plans for this GPU are known: Ampere, Ada and Hopper. Newer GPUs need other settings for
/// a deterministic backward pass.
bool knows_gpu(int device) {
  const int major = compute_capability(device) / 10;
  return major == 8 || major == 9;
}

/// cuDNN's handle and the plans serve one thread at a time.
std::mutex mutex;

/// The cuDNN handle of the process's GPU; null if cuDNN cannot be used.
cudnnHandle_t handle(int device) {
  static const cudnnHandle_t instance = [&] {
    cudnnHandle_t made = nullptr;
    if (!cudnn::library().usable || !knows_gpu(device) ||
        cudnn::library().create(&made) != CUDNN_STATUS_SUCCESS)
      return cudnnHandle_t{};
    cudnn::check(cudnn::library().set_stream(made, stream()), "cuDNN's stream");
    return made;
  }();
  return instance;
}

/// A cached plan, or null if cuDNN refuses. Making a plan takes about a third of a second. Plans
/// and refusals are cached by shapes and strides.
const cudnn::Plan* cached_plan(cudnn::Graph (*graph_of)(std::span<const CView>),
                               std::span<const CView> operands) {
  static auto& cache = *new std::unordered_map<std::string, std::optional<cudnn::Plan>>;
  constexpr std::size_t most = 256;
  std::string key;
  for (const CView& x : operands) {
    key.append(reinterpret_cast<const char*>(x.shape), sizeof(x.shape));
    key.append(reinterpret_cast<const char*>(x.stride), sizeof(x.stride));
  }
  auto found = cache.find(key);
  if (found == cache.end()) {
    if (cache.size() >= most) {
      synchronize(operands.front().device.index);  // kernels of these plans may still be running
      cache.clear();
    }
    std::optional<cudnn::Plan> plan;
    try {
      plan.emplace(graph_of(operands).plan(cudnn::Target(handle(operands.front().device.index))));
    } catch (const Error&) {  // cached as a refusal
    }
    found = cache.emplace(std::move(key), std::move(plan)).first;
  }
  return found->second ? &*found->second : nullptr;
}

void run(const cudnn::Plan& plan, std::span<const CView> operands,
         std::vector<cudnn::Binding> bindings) {
  const Workspace<char> memory(operands.front(), plan.workspace);
  std::int64_t id = id_q;
  for (const CView& x : operands) bindings.push_back({id++, x.data});
  plan.run(handle(operands.front().device.index), bindings, memory.get());
}

using GradientOperands = std::array<CView, id_dv>;

/// The part [first, first + count) of each operand, along axis 0 (samples) or 1 (heads).
GradientOperands part_of(GradientOperands operands, int axis, std::int64_t first,
                         std::int64_t count) {
  for (CView& x : operands) {
    x.data = static_cast<const char*>(x.data) + first * x.stride[axis] * size_of(x.dtype);
    x.shape[axis] = count;
  }
  return operands;
}

}  // namespace

CudnnState cudnn_state() {
  const cudnn::Library& found = cudnn::library();
  if (found.usable)
    return {true,
            found.text + ": for exact attention in bf16 of GPUs of compute capability 8 and 9", ""};
  return {false, found.text + ": exact attention runs on own kernels",
          "install cuDNN 9.19 or newer, or name its folder in LD_LIBRARY_PATH"};
}

bool attention_cudnn(CView q, CView k, CView v, double scale, View out, View log_sum_exp) {
  const std::lock_guard lock(mutex);
  if (!handle(q.device.index)) return false;
  const CView operands[] = {q, k, v, out, log_sum_exp};
  const cudnn::Plan* plan = cached_plan(attention_graph, operands);
  if (!plan) return false;
  const auto factor = static_cast<float>(scale);
  run(*plan, operands, {{id_scale, &factor}});
  return true;
}

bool attention_cudnn_grad(CView q, CView k, CView v, double scale, CView out, CView log_sum_exp,
                          CView dout, View dq, View dk, View dv) {
  const std::lock_guard lock(mutex);
  if (!handle(q.device.index)) return false;
  const GradientOperands operands{q, k, v, out, log_sum_exp, dout, dq, dk, dv};
  const std::int64_t length = q.shape[2];
  std::int64_t samples = q.shape[0], heads = q.shape[1];  // of a part
  while (bytes_of_scores(samples, heads, length) > max_workspace) {
    if (samples == 1 && heads == 1) return false;
    std::int64_t& halved = samples > 1 ? samples : heads;
    halved = (halved + 1) / 2;
  }
  const float factor = static_cast<float>(scale), one = 1;
  const Workspace<float> inner(q, samples * heads * length);
  for (std::int64_t b = 0; b < q.shape[0]; b += samples) {
    for (std::int64_t h = 0; h < q.shape[1]; h += heads) {
      const std::int64_t own_samples = std::min(samples, q.shape[0] - b),
                         own_heads = std::min(heads, q.shape[1] - h);
      const auto piece = part_of(part_of(operands, 0, b, own_samples), 1, h, own_heads);
      const cudnn::Plan* plan = cached_plan(attention_grad_graph, piece);
      // Engines with less workspace sum dq by atomics, which give other bits in each run.
      if (!plan || plan->workspace < bytes_of_scores(own_samples, own_heads, length)) return false;
      run(*plan, piece, {{id_scale, &factor}, {id_one, &one}, {id_inner, inner.get()}});
    }
  }
  return true;
}

}  // namespace nystrom::cuda
