// The interface of all attention kinds, and the self-attention module that uses one.
#pragma once

#include <memory>
#include <optional>

#include "nn/layers.h"
#include "nn/token_rows.h"

namespace nystrom {

/// The inputs of an attention kind. Head tensors are [b, h, n, d] and may be strided.
struct AttentionInputs {
  Var hidden;  ///< [b, n, hidden]: queries, keys and values are projections of it
  /// [b, h, n, d] each.
  Var queries, keys, values;
  const SequenceMask& mask;
  const Linear& query;  ///< the projections, for landmarks
  /// With kind reformer this is the queries' projection, because keys are queries there.
  const Linear& key;
};

/// The inputs of an attention kind's fused form, with the convolution of the values in it.
struct FusedInputs {
  Var hidden;  ///< [b, n, hidden]
  Var qkv;     ///< [b, n, 3 · hidden]: queries, keys and values
  Var taps;    ///< [h, 1, k, 1]; undefined without a convolution
  const SequenceMask& mask;
  const Linear &query, &key;  ///< the projections, for landmarks
};

/// An attention kind, which maps its inputs to [b, h, n, d]. Outputs at padded positions are finite
/// and otherwise unspecified.
class AttentionMethod {
 public:
  virtual ~AttentionMethod() = default;
  /// The output of the attention, [b, h, n, d].
  virtual Var operator()(const AttentionInputs& inputs) const = 0;
  /// Whether fused() computes samples of this mask.
  virtual bool fuses(const SequenceMask&) const { return false; }
  /// The attention and the convolution in one op: [b, n, hidden]. Equal to the composed form.
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

 private:
  double scale_;
  EmptyRows empty_rows_;
};

/// Self-attention without its output projection: projections, an attention kind, and the
/// convolution skip.
class SelfAttention {
 public:
  /// Declares the parameters under `scope`.
  SelfAttention(const Scope& scope, const ModelConfig& config);
  /// The attention of x [b, n, hidden] before its output projection: [b, n, hidden]. With rows of
  /// tokens [r, hidden] → [r, hidden]: each sample's tokens see its own.
  Var operator()(const Var& x, const SequenceMask& mask, const TokenRows& tokens,
                 const RunContext& run) const;

 private:
  const Linear& query() const { return projections_.front(); }
  /// With kind reformer this is query(), because keys are queries there.
  const Linear& key() const { return projections_[projections_.size() - 2]; }
  const Linear& value() const { return projections_.back(); }
  bool fuses(const Var& rows, const SequenceMask& mask, const RunContext& run) const;

  std::int64_t heads_;
  bool conv_sees_padding_;
  std::vector<Linear> projections_;  // query, key and value, or query and value
  std::optional<Parameter> conv_;    // [h, 1, k, 1]
  std::unique_ptr<AttentionMethod> method_;
};

/// [b, n, h·d] → [b, h, n, d], as a view.
Var split_heads(const Var& x, std::int64_t heads);
/// The inverse of split_heads: [b, h, n, d] → [b, n, h·d]. Nothing is copied if x came from
/// split_heads.
Var merge_heads(const Var& x);

}  // namespace nystrom
