#include <algorithm>

#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {

Var reshape(const Var& x, const Shape& shape) {
  return record(
      "reshape", x.value().contiguous().reshape(shape), {x},
      [before = x.shape()](const Tensor& dy, Grads grads) { grads.add(0, dy.reshape(before)); });
}

Var transpose(const Var& x, int axis_a, int axis_b) {
  return record("transpose", x.value().transpose(axis_a, axis_b), {x},
                [axis_a, axis_b](const Tensor& dy, Grads grads) {
                  grads.add(0, dy.transpose(axis_a, axis_b));
                },
                {.strided = true});
}

Var split_heads(const Var& x, std::int64_t heads, std::int64_t part, std::int64_t parts) {
  const std::int64_t width = x.dim(-1);
  require(1 <= heads && heads <= std::max<std::int64_t>(width, 1) && 0 <= part && part < parts &&
              parts <= std::max<std::int64_t>(width, 1) && width % (parts * heads) == 0,
          "split_heads: x {}, heads {}, part {} of {}", x.shape(), heads, part, parts);
  const std::int64_t all = parts * heads;
  const Var split = slice(reshape(x, x.shape().without(-1).append(all).append(width / all)), -2,
                          part * heads, (part + 1) * heads);
  return split.rank() == 4 ? transpose(split, 1, 2) : split;
}

Var merge_heads(const Var& x) {
  const Var rows = x.rank() == 4 ? transpose(x, 1, 2) : x;
  return reshape(rows, rows.shape().without(-1).without(-1).append(rows.dim(-2) * rows.dim(-1)));
}

Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end) {
  if (begin == 0 && end == x.dim(axis)) return x;
  return record("slice", x.value().slice(axis, begin, end), {x},
                [axis, begin, end, shape = x.shape()](const Tensor& dy, Grads grads) {
                  kernels::accumulate(dy, 1,
                                      grads.so_far(0, shape, dy.device()).slice(axis, begin, end));
                },
                {.strided = true});
}

Var concat(const std::vector<Var>& parts, int axis) {
  require(!parts.empty(), "concat: needs at least one part");
  Shape shape = parts[0].shape();
  const int at = shape.normalise(axis);
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const Var& part : parts) {
    require(part.rank() == shape.rank() && part.shape().without(at) == shape.without(at) &&
                part.dtype() == parts[0].dtype(),
            "concat: part {} {} does not fit {} {} along axis {}", part.dtype(), part.shape(),
            parts[0].dtype(), shape, axis);
    ends.push_back(total += part.dim(at));
  }
  shape[at] = total;
  Tensor y = Tensor::empty(shape, parts[0].dtype(), parts[0].value().device());
  for (std::size_t i = 0; i < parts.size(); ++i)
    kernels::copy(parts[i].value(), y.slice(at, i == 0 ? 0 : ends[i - 1], ends[i]));
  return record("concat", y, parts,
                [at, ends](const Tensor& dy, Grads grads) {
                  for (std::size_t i = 0; i < ends.size(); ++i)
                    grads.add(i, dy.slice(at, i == 0 ? 0 : ends[i - 1], ends[i]));
                },
                {.strided = true});
}

}  // namespace nystrom
