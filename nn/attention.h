// The interface of all attention kinds, and the self-attention module that uses one.
#pragma once

#include <memory>
#include <optional>

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
};

/// The inputs of an attention kind's fused form, with the convolution of the values in it.
struct FusedInputs {
  Var hidden;  ///< rows of the batch
  Var qkv;     ///< [r, 3 · hidden] or [b, n, 3 · hidden]: queries, keys and values
  Var taps;    ///< [h, 1, k, 1]; undefined without a convolution
  const Ragged& batch;
  const Linear &query, &key;  ///< the projections, for landmarks
};

/// An attention kind, which maps its inputs to the shape of the queries. Rows of padding are finite
/// and otherwise unspecified.
class AttentionMethod {
 public:
  virtual ~AttentionMethod() = default;
  /// The output of the attention, of the queries' shape.
  virtual Var operator()(const AttentionInputs& inputs) const = 0;
  /// Whether fused() computes this batch.
  virtual bool fuses(const Ragged&) const { return false; }
  /// The attention and the convolution in one op: rows of hidden. Equal to the composed form.
  virtual Var fused(const FusedInputs&) const { return {}; }
};

/// Makes the method that `config.attention.kind` names. Its parameters and its random numbers
/// belong to `scope`.
std::unique_ptr<AttentionMethod> make_attention(const Scope& scope, const ModelConfig& config);

/// softmax(q kᵀ / √d) v: exact attention, O(n²).
class SoftmaxAttention : public AttentionMethod {
 public:
  explicit SoftmaxAttention(const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;
  /// The same of some sequences; other rows are 0.
  Var of(const SequenceSpans& sequences, const AttentionInputs& inputs) const;

 private:
  double scale_;
  EmptyRows empty_rows_;
};

/// An attention kind without a form for ragged rows: it computes sequence by sequence.
class DenseAttention : public AttentionMethod {
 public:
  Var operator()(const AttentionInputs& inputs) const final;

 private:
  /// The attention to b sequences of n tokens, whose positions are `places`: k, v [b, h, n, d], q
  /// of these tokens behind rows of padding → q's shape, or that of the tokens alone.
  virtual Var of_tokens(const Var& q, const Var& k, const Var& v,
                        const std::vector<std::int64_t>& places) const = 0;
};

/// Self-attention without its output projection: projections, an attention kind, and the
/// convolution skip.
class SelfAttention {
 public:
  /// Declares the parameters under `scope`.
  SelfAttention(const Scope& scope, const ModelConfig& config);
  /// The attention of x, rows of the batch [r, hidden] or [b, n, hidden], before its output
  /// projection: the same shape.
  Var operator()(const Var& x, const Ragged& batch, const RunContext& run) const;

 private:
  const Linear& query() const { return projections_.front(); }
  /// With kind reformer this is query(), because keys are queries there.
  const Linear& key() const { return projections_[projections_.size() - 2]; }
  const Linear& value() const { return projections_.back(); }
  bool fuses(const Var& x, const Ragged& batch, const RunContext& run) const;
  /// The convolution of the values v, rows of hidden: [r, h, d] or [b, n, h, d].
  Var convolve(const Var& v, const Ragged& batch) const;

  std::int64_t heads_;
  std::vector<Linear> projections_;  // query, key and value, or query and value
  std::optional<Parameter> conv_;    // [h, 1, k, 1]
  std::unique_ptr<AttentionMethod> method_;
};

/// [b, n, h·d] → [b, h, n, d] or, ragged, [r, h·d] → [r, h, d], as a view.
Var split_heads(const Var& x, std::int64_t heads);
/// The inverse of split_heads. Nothing is copied if x came from split_heads.
Var merge_heads(const Var& x);

}  // namespace nystrom
