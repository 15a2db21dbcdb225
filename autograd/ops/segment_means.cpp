#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {

Var segment_means(const Var& x, const RowSpans& given, std::int64_t segments) {
  const bool ragged = given.ragged();
  require(x.rank() == (ragged ? 2 : 3), "segment_means: expected {}, got {}",
          ragged ? "ragged [r, c]" : "[b, n, c]", x.shape());
  require(segments >= 1, "segment_means: needs at least one segment, got {}", segments);
  require_spans("segment_means", given, x.dim(0));
  const Tensor value = x.value().contiguous();
  const RowSpans spans = given.on(value.device());
  Tensor y = Tensor::empty({spans.count(x.dim(0)), segments, x.dim(-1)},
                           accumulate_dtype(x.dtype()), value.device());
  kernels::segment_means(value, spans, y);
  return record("segment_means", y, {x}, [shape = x.shape(), spans](const Tensor& dy, Grads grads) {
    kernels::segment_means_grad(dy, spans, grads.so_far(0, shape, dy.device()));
  });
}

}  // namespace nystrom
