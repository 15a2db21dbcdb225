#include "core/cuda/attention/attention_graphs.h"

#include <utility>

namespace nystrom::cuda {
namespace {

using cudnn::Graph;
using cudnn::Node;

/// cuDNN expects keys and values as right operands of products.
ViewBase with_swapped_axes(ViewBase view) {
  std::swap(view.shape[2], view.shape[3]);
  std::swap(view.stride[2], view.stride[3]);
  return view;
}

/// Contiguous [b, h, n] as [b, h, n, 1].
ViewBase as_column(ViewBase view) {
  view.rank = 4;
  view.shape[3] = 1;
  view.stride[0] = view.shape[1] * view.shape[2];
  view.stride[1] = view.shape[2];
  view.stride[2] = view.stride[3] = 1;
  return view;
}

/// The positions of the operands in a graph.
struct Memory {
  Graph& graph;
  std::span<const CView> operands;

  const CView& view(AttentionId id) const { return operands[static_cast<std::size_t>(id - id_q)]; }
  Node operator()(AttentionId id) const { return graph.memory(id, view(id)); }
  Node transposed(AttentionId id) const { return graph.memory(id, with_swapped_axes(view(id))); }
  /// One number a row, as log_sum_exp has.
  Node column(AttentionId id) const { return graph.memory(id, as_column(view(id_log_sum_exp))); }
};

}  // namespace

Graph attention_graph(std::span<const CView> operands) {
  Graph g;
  const Memory memory{g, operands};
  const Node scores = g.pointwise(
      CUDNN_POINTWISE_MUL, g.matmul(memory(id_q), memory.transposed(id_k)), g.scalar(id_scale));
  const Node largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Node e =
      g.pointwise(CUDNN_POINTWISE_EXP, g.pointwise(CUDNN_POINTWISE_SUB, scores, largest));
  const Node sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, e);
  g.pointwise(CUDNN_POINTWISE_ADD, largest, g.pointwise(CUDNN_POINTWISE_LOG, sum),
              memory.column(id_log_sum_exp));
  const Node p = g.pointwise(CUDNN_POINTWISE_DIV, e, sum, g.internal(e, DType::bf16));
  g.matmul(p, memory(id_v), memory(id_out));
  return g;
}

Graph attention_grad_graph(std::span<const CView> operands) {
  Graph g;
  const Memory memory{g, operands};
  const Node q = memory(id_q), k = memory.transposed(id_k), v = memory.transposed(id_v),
             dout = memory(id_dout), scale = g.scalar(id_scale);
  const Node row_sum =
      g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.pointwise(CUDNN_POINTWISE_MUL, dout, memory(id_out)));
  // Times 1: engines expect the factor of a dropout here.
  const Node inner =
      g.pointwise(CUDNN_POINTWISE_MUL, row_sum, g.scalar(id_one), memory.column(id_inner));

  const Node scores = g.pointwise(CUDNN_POINTWISE_MUL, g.matmul(q, k), scale);
  const Node p = g.pointwise(
      CUDNN_POINTWISE_EXP, g.pointwise(CUDNN_POINTWISE_SUB, scores, memory.column(id_log_sum_exp)));
  g.matmul(g.transpose(p), dout, memory(id_dv));

  const Node dp = g.pointwise(CUDNN_POINTWISE_SUB, g.matmul(dout, v), inner);
  const Node ds = g.pointwise(CUDNN_POINTWISE_MUL, g.pointwise(CUDNN_POINTWISE_MUL, dp, p), scale);
  g.matmul(g.transpose(ds), q, memory(id_dk));
  g.matmul(ds, g.transpose(k), memory(id_dq));
  return g;
}

}  // namespace nystrom::cuda
