// How the positions of a sequence see each other: the interface of every attention kind, and the
// module that uses one.
#pragma once

#include <memory>
#include <optional>

#include "nn/layers.h"
#include "nn/sequence_mask.h"

namespace nystrom {

/// What an attention kind may use. Head tensors are [b, h, n, d], possibly strided.
struct AttentionInputs {
  Var hidden;  ///< [b, n, hidden]: what queries, keys and values were projected from
  Var queries, keys, values;
  const SequenceMask& mask;
  const Linear& query;  ///< the projections, for landmarks
  const Linear& key;    ///< under kind reformer the queries' own, as keys are queries there
};

/// One attention kind: [b, h, n, d] from its inputs. Outputs at padded positions are finite and
/// otherwise unspecified.
class AttentionMethod {
 public:
  virtual ~AttentionMethod() = default;
  virtual Var operator()(const AttentionInputs& inputs) const = 0;
};

/// The method that `config.attention.kind` names. Its parameters, and its random numbers, belong to
/// `scope`.
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

/// Projections, one attention kind, and the convolution skip: x [b, n, hidden] → [b, n, hidden],
/// before the output projection.
class SelfAttention {
 public:
  SelfAttention(const Scope& scope, const ModelConfig& config);
  Var operator()(const Var& x, const SequenceMask& mask, const RunContext& run) const;

 private:
  std::int64_t heads_;
  bool conv_sees_padding_;
  Linear query_;
  std::optional<Linear> key_;  // none: keys are the queries
  Linear value_;
  std::optional<Parameter> conv_;  // [h, 1, k, 1]
  std::unique_ptr<AttentionMethod> method_;
};

/// [b, n, h·d] as [b, h, n, d]; a view.
Var split_heads(const Var& x, std::int64_t heads);
/// The converse, [b, h, n, d] as [b, n, h·d]; free where x came from split_heads.
Var merge_heads(const Var& x);

}  // namespace nystrom
