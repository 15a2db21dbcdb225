// The interface of all attention kinds, and the self-attention module that uses one.
#pragma once

#include <memory>
#include <optional>

#include "autograd/ops.h"
#include "nn/layers.h"
#include "nn/ragged.h"

namespace nystrom {

/// The inputs of an attention kind.
struct AttentionInputs {
  Var hidden;  ///< rows of the batch: queries, keys and values are projections of them
  /// [r, h, d] each, or [b, h, n, d] of a dense batch; they may be strided.
  Var queries, keys, values;
  const Ragged& batch;
  const Linear& query;  ///< the projections, for landmarks
  /// With kind reformer this is the queries' projection, because keys are queries there.
  const Linear& key;
  /// [r, 3 · hidden] or [b, n, 3 · hidden], if queries, keys and values are the parts of one
  /// tensor.
  Var qkv = {};
  /// With rotary positions, by which queries and keys are rotated: the base of the angles.
  std::optional<double> rope_theta = {};

  /// The same attention of other values.
  AttentionInputs with_values(const Var& other) const {
    AttentionInputs changed = *this;
    changed.values = other;
    changed.qkv = {};
    return changed;
  }
};

/// The rows of a batch that the last layer computes, because the head reads no others.
struct ReadRows {
  Tensor rows;                      ///< [p] i64
  std::optional<Ragged> attending;  ///< the batch with these queries; nothing: use those of all

  /// These rows of x […, hidden], [p, hidden].
  Var of(const Var& x) const { return gather_rows(flat_rows(x), rows); }
};

/// The tables of rotate() for a batch: of layers that see all tokens, and of those with a window.
/// Undefined without rotary positions.
struct Rotations {
  Tensor global, local;
  std::optional<double> global_theta;
};

/// An attention kind, which maps its inputs to the shape of the queries. Rows of padding are finite
/// and otherwise unspecified.
class AttentionMethod {
 public:
  virtual ~AttentionMethod() = default;
  /// The output of the attention, of the queries' shape.
  virtual Var operator()(const AttentionInputs& inputs) const = 0;
  /// The same plus the convolution skip: the values along the positions of each sequence, with one
  /// filter a head, taps [h, 1, k, 1]. Rows [r, h · d] or [b, n, h · d].
  virtual Var with_convolution(const AttentionInputs& inputs, const Parameter& taps) const;
};

/// Makes the method that `config.attention.kind` names. Its parameters and its random numbers
/// belong to `scope`.
std::unique_ptr<AttentionMethod> make_attention(const Scope& scope, const ModelConfig& config);

/// softmax(q kᵀ / √d) v: exact attention, O(n²), or O(n) with attention.window.
class SoftmaxAttention : public AttentionMethod {
 public:
  explicit SoftmaxAttention(const ModelConfig& config, EmptyRows empty_rows = EmptyRows::zero);
  Var operator()(const AttentionInputs& inputs) const override;
  /// The same of some sequences. Its rows are written into `others`, which has those of the others;
  /// undefined: these are 0.
  Var of(const SequenceSpans& sequences, const AttentionInputs& inputs,
         const Var& others = {}) const;

 private:
  double scale_;
  std::int64_t reach_;
  EmptyRows empty_rows_;
};

/// Self-attention without its output projection: projections, an attention kind, and the
/// convolution skip.
class SelfAttention {
 public:
  /// Declares the parameters under `scope`.
  SelfAttention(const Scope& scope, const ModelConfig& config);
  /// The attention of x, rows of the batch [r, hidden] or [b, n, hidden], before its output
  /// projection: the same shape, or [p, hidden] of the rows that are read.
  Var operator()(const Var& x, const Ragged& batch, const Rotations& rotations,
                 const std::optional<ReadRows>& read, const RunContext& run) const;

 private:
  const Linear& query() const { return projections_.front(); }
  /// With kind reformer this is query(), because keys are queries there.
  const Linear& key() const { return projections_[projections_.size() - 2]; }
  const Linear& value() const { return projections_.back(); }
  /// Whether some rows may attend without the others: where neither distances count nor, as in
  /// int8, all rows share one rounding.
  bool may_attend_alone(const Rotations& rotations) const;
  /// `rows`, the attention of the rows `read` alone, behind an observer that sees the attention of
  /// all rows and the gradient of these. It changes no bit of `rows` or of its gradient.
  Var observed(const Var& rows, const Tensor& read, const Var& x, const Ragged& batch,
               const RunContext& run) const;
  /// Queries of the rows `attending`, keys and values of x.
  AttentionInputs project(const Var& attending, const Var& x, const Ragged& batch,
                          const Rotations& rotations) const;

  bool has_window_;
  std::int64_t heads_;
  AttentionKind kind_;
  std::int64_t landmarks_;
  std::vector<Linear> projections_;  // query, key and value, or query and value
  std::optional<Parameter> taps_;    // of the convolution, [h, 1, k, 1]
  std::unique_ptr<AttentionMethod> method_;
};

}  // namespace nystrom
