#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {
namespace {

/// [b, h, n, width] with the memory layout [b, n, h, width].
Tensor empty_heads(std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t width, DType dtype,
                   Device device) {
  return Tensor::empty({b, n, h, width}, dtype, device).transpose(1, 2);
}

Tensor empty_heads_like(const Tensor& x) {
  return empty_heads(x.dim(0), x.dim(1), x.dim(2), x.dim(3), x.dtype(), x.device());
}

Tensor with_unit_columns(const Tensor& x) {
  return x.dim(3) <= 1 || x.stride(3) == 1 ? x : x.contiguous();
}

void check(const Var& q, const Var& k, const Var& v, const AttentionOptions& options) {
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4,
          "attention: expected [b, h, n, d] three times; got {}, {}, {}", q.shape(), k.shape(),
          v.shape());
  require(q.dim(0) == k.dim(0) && q.dim(1) == k.dim(1) && q.dim(3) == k.dim(3),
          "attention: queries {} and keys {} do not match", q.shape(), k.shape());
  require(k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1) && k.dim(2) == v.dim(2),
          "attention: keys {} and values {} do not match", k.shape(), v.shape());
  const DType sums = accumulate_dtype(q.dtype());
  require(accumulate_dtype(k.dtype()) == sums && accumulate_dtype(v.dtype()) == sums &&
              accumulate_dtype(options.out) == sums,
          "attention: types {}, {}, {} → {} do not share an accumulate type", q.dtype(), k.dtype(),
          v.dtype(), options.out);
  if (options.key_mask.defined()) {
    require(options.key_mask.shape() == Shape{k.dim(0), k.dim(2)} &&
                options.key_mask.dtype() == DType::u8,
            "attention: the key mask is {} {}, expected u8 [{}, {}]", options.key_mask.dtype(),
            options.key_mask.shape(), k.dim(0), k.dim(2));
  }
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, const AttentionOptions& options) {
  check(q, k, v, options);
  const Tensor mask = options.key_mask.to(q.value().device());
  const Tensor qv = with_unit_columns(q.value()), kv = with_unit_columns(k.value()),
               vv = with_unit_columns(v.value());
  Tensor out = empty_heads(qv.dim(0), qv.dim(1), qv.dim(2), vv.dim(3), options.out, qv.device());
  Tensor log_sum_exp =
      Tensor::empty(qv.shape().without(-1), accumulate_dtype(qv.dtype()), qv.device());
  kernels::attention(qv, kv, vv, mask, options.empty_rows, options.scale, out, log_sum_exp);
  const auto backward = [qv, kv, vv, mask, options, out, log_sum_exp](const Tensor& dy,
                                                                      Grads grads) {
    Tensor dq = empty_heads_like(qv), dk = empty_heads_like(kv), dv = empty_heads_like(vv);
    kernels::attention_grad(qv, kv, vv, mask, options.empty_rows, options.scale, out, log_sum_exp,
                            with_unit_columns(dy), dq, dk, dv);
    grads.add(0, std::move(dq));
    grads.add(1, std::move(dk));
    grads.add(2, std::move(dv));
  };
  return record("attention", out, {q, k, v}, backward, DyLayout::strided);
}

}  // namespace nystrom
