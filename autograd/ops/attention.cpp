#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

void check(const Var& q, const Var& k, const Var& v, const AttentionOptions& options) {
  require_heads("attention", q.shape(), options.queries, "queries");
  require_heads("attention", k.shape(), options.keys, "keys");
  require_heads("attention", v.shape(), options.keys, "values");
  require(options.queries.count(q.dim(0)) == options.keys.count(k.dim(0)) && q.dim(1) == k.dim(1) &&
              q.dim(-1) == k.dim(-1),
          "attention: queries {} and keys {} do not match", q.shape(), k.shape());
  require(k.shape().without(-1) == v.shape().without(-1),
          "attention: keys {} and values {} do not match", k.shape(), v.shape());
  const DType sums = accumulate_dtype(q.dtype());
  require(accumulate_dtype(k.dtype()) == sums && accumulate_dtype(v.dtype()) == sums &&
              accumulate_dtype(options.out) == sums,
          "attention: types {}, {}, {} → {} do not share an accumulate type", q.dtype(), k.dtype(),
          v.dtype(), options.out);
  if (options.reach < Scoring::all_keys)
    require(options.reach >= 0 && q.shape() == k.shape() &&
                options.queries.sizes() == options.keys.sizes() &&
                options.queries.end() == options.keys.end() && !options.key_mask.defined(),
            "attention: with a reach of {}, queries {} and keys {} are of the same rows, none "
            "masked",
            options.reach, q.shape(), k.shape());
  if (options.others.defined())
    require(options.queries.ragged() && options.others.dtype() == options.out &&
                (!options.others.slot() || !options.others.slot()->is_leaf) &&
                options.others.shape() == q.shape().without(-1).append(v.dim(-1)),
            "attention: the other rows are {} {}, expected those of ragged queries {} in {}",
            options.others.dtype(), options.others.shape(), q.shape(), options.out);
  if (!options.key_mask.defined()) return;
  require(!options.keys.ragged(), "attention: a key mask is of dense keys, got {}", k.shape());
  require(options.key_mask.shape() == Shape{k.dim(0), k.dim(2)} &&
              options.key_mask.dtype() == DType::u8,
          "attention: the key mask is {} {}, expected u8 [{}, {}]", options.key_mask.dtype(),
          options.key_mask.shape(), k.dim(0), k.dim(2));
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, const AttentionOptions& options) {
  check(q, k, v, options);
  const Device device = q.value().device();
  const RowSpans queries = options.queries.on(device), keys = options.keys.on(device);
  const Tensor mask = options.key_mask.contiguous().to(device);
  const Tensor qv = with_unit_columns(q.value()), kv = with_unit_columns(k.value()),
               vv = with_unit_columns(v.value());
  Tensor out = options.others.defined() ? options.others.value()
                                        : empty_heads(qv, vv.dim(-1), queries, options.out);
  Tensor log_sum_exp =
      Tensor::empty(log_sum_exp_shape(qv.shape(), queries), accumulate_dtype(qv.dtype()), device);
  const Scoring scoring(options.scale, std::min(options.reach, Scoring::all_keys));
  kernels::attention(qv, kv, vv, queries, keys, mask, options.empty_rows, scoring, out,
                     log_sum_exp);
  const auto backward = [=, empty = options.empty_rows](const Tensor& dy, Grads grads) {
    Tensor dq = empty_heads_like(qv, queries), dk = empty_heads_like(kv, keys),
           dv = empty_heads_like(vv, keys);
    kernels::attention_grad(qv, kv, vv, queries, keys, mask, empty, scoring, out, log_sum_exp,
                            with_unit_columns(dy), dq, dk, dv);
    grads.add(0, std::move(dq));
    grads.add(1, std::move(dk));
    grads.add(2, std::move(dv));
    grads.add(3, dy);
  };
  return record("attention", out, {q, k, v, options.others}, backward, {.strided = true});
}

}  // namespace nystrom
