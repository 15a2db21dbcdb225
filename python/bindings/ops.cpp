// nystrom.ops: the functions of autograd/ops.h.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "autograd/ops.h"
#include "docs.h"
#include "python/bindings/bindings.h"

namespace nystrom::python {
namespace {

/// The value of a target, which gets no gradient.
Tensor constant_of(const Var& target) {
  require_input(!target.requires_grad(),
                "target: gets no gradient, and this tensor requires one; give its values: "
                "target.numpy()");
  return target.value();
}

using Sizes = std::vector<std::int64_t>;

void bind_elementwise(nb::module_& ops) {
  ops.def("affine", &affine, "x"_a, "scale"_a, "shift"_a = 0.0, doc::affine, ReleaseLock());
  ops.def("gelu_erf", &gelu_erf, "x"_a, doc::gelu_erf, ReleaseLock());
  ops.def("gelu_tanh", &gelu_tanh, "x"_a, doc::gelu_erf, ReleaseLock());
  ops.def("silu", &silu, "x"_a, doc::silu, ReleaseLock());
  ops.def("relu", &relu, "x"_a, doc::relu, ReleaseLock());
  ops.def(
      "tanh", [](const Var& x) { return tanh(x); }, "x"_a, doc::tanh, ReleaseLock());
  ops.def(
      "exp", [](const Var& x) { return exp(x); }, "x"_a, doc::exp, ReleaseLock());
  ops.def("square", &square, "x"_a, doc::square, ReleaseLock());
  ops.def(
      "cast", [](const Var& x, const std::string& type) { return cast(x, dtype_called(type)); },
      "x"_a, "dtype"_a, doc::cast, ReleaseLock());
  ops.def(
      "round_to",
      [](const Var& x, const std::string& type) { return round_to(x, dtype_called(type)); }, "x"_a,
      "dtype"_a, doc::round_to, ReleaseLock());
  ops.def(
      "dropout",
      [](const Var& x, double p, const Array& sample_ids, std::uint64_t seed, std::uint64_t step,
         std::uint32_t site) {
        return dropout(x, p, {seed, step, site}, copy_of(sample_ids));
      },
      "x"_a, "p"_a, "sample_ids"_a, "seed"_a = 0, "step"_a = 0, "site"_a = 0, doc::dropout,
      ReleaseLock());
}

void bind_products(nb::module_& ops) {
  ops.def(
      "linear",
      [](const Var& x, const Var& weight, const std::optional<Var>& bias,
         const std::string& precision) {
        return linear(x, weight, bias.value_or(Var()),
                      value_called<Precision>("precision", precision));
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "precision"_a = "full", doc::linear, ReleaseLock());
  ops.def(
      "linear_unrounded",
      [](const Var& x, const Var& weight, const std::optional<Var>& bias) {
        return linear_unrounded(x, weight, bias.value_or(Var()));
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), doc::linear_unrounded, ReleaseLock());
  ops.def(
      "feed_forward",
      [](const std::string& activation, const Var& x, const Var& up,
         const std::optional<Var>& up_bias, const Var& down, const std::optional<Var>& down_bias) {
        return feed_forward(value_called<Unary>("activation", activation), x,
                            {up, up_bias.value_or(Var())}, {down, down_bias.value_or(Var())});
      },
      "activation"_a, "x"_a, "up"_a, "up_bias"_a, "down"_a, "down_bias"_a = nb::none(),
      doc::feed_forward, ReleaseLock());
  ops.def(
      "gated_linear",
      [](const std::string& activation, const Var& x, const Var& weight,
         const std::optional<Var>& bias) {
        return gated_linear(value_called<Unary>("activation", activation), x, weight,
                            bias.value_or(Var()));
      },
      "activation"_a, "x"_a, "weight"_a, "bias"_a = nb::none(), doc::gated_linear, ReleaseLock());
  ops.def("joint_linear", &joint_linear, "x"_a, "weights"_a, "biases"_a, doc::joint_linear,
          ReleaseLock());
  ops.def("matmul", &matmul, "a"_a, "b"_a, doc::matmul, ReleaseLock());
}

/// Spans from an array [p, 2] of the first row of each and the row after its last; none: dense.
RowSpans spans_of(const std::optional<Array>& bounds) {
  if (!bounds) return {};
  const Tensor rows = tensor_of(*bounds).contiguous();
  require_input(rows.rank() == 2 && rows.dim(1) == 2 && rows.dtype() == DType::i64,
                "spans are {} {}; expected i64 [p, 2]", rows.dtype(), rows.shape());
  std::vector<RowRange> ranges;
  for (std::int64_t i = 0; i < rows.dim(0); ++i) {
    const auto* bound = rows.data<std::int64_t>() + 2 * i;
    const std::int64_t before = ranges.empty() ? 0 : ranges.back().end;
    require_input(bound[0] >= before && bound[1] >= bound[0],
                  "span {} is {} to {}; expected rows from {} on, in order", i, bound[0], bound[1],
                  before);
    ranges.push_back({bound[0], bound[1]});
  }
  return RowSpans(ranges, cpu_device);
}

/// One projection of landmarks stands for shared ones.
Var bound_nystrom_attention(const Var& hidden, const Var& qkv, const std::vector<Var>& weights,
                            const std::vector<Var>& biases, const std::optional<Var>& taps,
                            std::int64_t heads, std::int64_t landmarks, std::int64_t iterations,
                            double scale, const std::string& pinv_scale,
                            const std::optional<Array>& spans, const std::optional<Array>& key_mask,
                            const std::string& empty_rows) {
  NystromOptions options;
  options.heads = heads;
  options.landmarks = landmarks;
  options.iterations = iterations;
  options.scale = scale;
  options.pinv_scale = value_called<PinvScale>("pinv_scale", pinv_scale);
  options.queries = options.keys = spans_of(spans);
  options.key_mask = copy_of(key_mask);
  options.empty_rows = value_called<EmptyRows>("empty_rows", empty_rows);
  return nystrom_attention(
      NystromInputs::joint(hidden, qkv, heads, {weights, biases}, taps.value_or(Var())), options);
}

void bind_attention(nb::module_& ops) {
  ops.def("nystrom_attention", &bound_nystrom_attention, "hidden"_a, "qkv"_a, "weights"_a,
          "biases"_a, "taps"_a = nb::none(), "heads"_a = 1, "landmarks"_a = 1, "iterations"_a = 6,
          "scale"_a = 1.0, "pinv_scale"_a = "per_matrix", "spans"_a = nb::none(),
          "key_mask"_a = nb::none(), "empty_rows"_a = "zero", doc::nystrom_attention,
          ReleaseLock());
  ops.def("softmax", &softmax, "x"_a, doc::softmax, ReleaseLock());
  ops.def(
      "attention",
      [](const Var& q, const Var& k, const Var& v, double scale,
         const std::optional<Array>& queries, const std::optional<Array>& keys,
         const std::optional<Array>& key_mask, const std::string& empty_rows,
         const std::optional<std::string>& out, const std::optional<std::int64_t>& reach) {
        AttentionOptions options;
        options.reach = reach.value_or(Scoring::all_keys);
        options.scale = scale;
        options.queries = spans_of(queries);
        options.keys = spans_of(keys);
        options.key_mask = copy_of(key_mask);
        options.empty_rows = value_called<EmptyRows>("empty_rows", empty_rows);
        options.out = out ? dtype_called(*out) : q.dtype();
        return attention(q, k, v, options);
      },
      "q"_a, "k"_a, "v"_a, "scale"_a = 1.0, "queries"_a = nb::none(), "keys"_a = nb::none(),
      "key_mask"_a = nb::none(), "empty_rows"_a = "zero", "out"_a = nb::none(),
      "reach"_a = nb::none(), doc::attention, ReleaseLock());
  ops.def(
      "rotate",
      [](const Var& x, const Array& table, const std::optional<Array>& spans,
         std::optional<std::int64_t> heads) {
        return rotate(x, spans_of(spans), copy_of(table), heads);
      },
      "x"_a, "table"_a, "spans"_a = nb::none(), "heads"_a = nb::none(), doc::rotate, ReleaseLock());
  ops.def(
      "rotary_table",
      [](std::int64_t count, std::int64_t width, double theta) {
        return Var(rotary_table(count, width, theta));
      },
      "count"_a, "width"_a, "theta"_a, doc::rotary_table, ReleaseLock());
  ops.def(
      "segment_means",
      [](const Var& x, std::int64_t segments, const std::optional<Array>& spans) {
        return segment_means(x, spans_of(spans), segments);
      },
      "x"_a, "segments"_a, "spans"_a = nb::none(), doc::segment_means, ReleaseLock());
  ops.def(
      "pseudo_inverse_iterative",
      [](const Var& a, std::int64_t iterations, const std::string& scale) {
        return pseudo_inverse_iterative(a, iterations, value_called<PinvScale>("scale", scale));
      },
      "a"_a, "iterations"_a, "scale"_a = "per_matrix", doc::pseudo_inverse_iterative,
      ReleaseLock());
  ops.def("pseudo_inverse_exact", &pseudo_inverse_exact, "a"_a, doc::pseudo_inverse_exact,
          ReleaseLock());
  ops.def(
      "sequence_conv",
      [](const Var& x, const Var& weight, const std::optional<Array>& spans) {
        return sequence_conv(x, weight, spans_of(spans));
      },
      "x"_a, "weight"_a, "spans"_a = nb::none(), doc::sequence_conv, ReleaseLock());
  ops.def(
      "layer_norm",
      [](const Var& x, const Var& gamma, const std::optional<Var>& beta, double epsilon) {
        return layer_norm(x, gamma, beta.value_or(Var()), epsilon);
      },
      "x"_a, "gamma"_a, "beta"_a.none(), "epsilon"_a, doc::layer_norm, ReleaseLock());
  ops.def(
      "residual_dropout",
      [](const Var& x, const Var& residual, double p, const std::optional<Array>& sample_ids,
         std::uint64_t seed, std::uint64_t step, std::uint32_t site) {
        return residual_dropout(x, residual, {p, {seed, step, site}, copy_of(sample_ids)});
      },
      "x"_a, "residual"_a, "p"_a = 0.0, "sample_ids"_a = nb::none(), "seed"_a = 0, "step"_a = 0,
      "site"_a = 0, doc::residual_dropout, ReleaseLock());
  ops.def(
      "residual_layer_norm",
      [](const Var& x, const Var& residual, const Var& gamma, const std::optional<Var>& beta,
         double epsilon, double p, const std::optional<Array>& sample_ids, std::uint64_t seed,
         std::uint64_t step, std::uint32_t site) {
        const DropoutOptions options{p, {seed, step, site}, copy_of(sample_ids)};
        return residual_layer_norm(x, residual, options, gamma, beta.value_or(Var()), epsilon);
      },
      "x"_a, "residual"_a, "gamma"_a, "beta"_a.none(), "epsilon"_a, "p"_a = 0.0,
      "sample_ids"_a = nb::none(), "seed"_a = 0, "step"_a = 0, "site"_a = 0,
      doc::residual_layer_norm, ReleaseLock());
}

void bind_rows(nb::module_& ops) {
  ops.def(
      "embedding",
      [](const Var& table, const Array& ids, std::int64_t padding_row) {
        return embedding(table, copy_of(ids), padding_row);
      },
      "table"_a, "ids"_a, "padding_row"_a = -1, doc::embedding, ReleaseLock());
  ops.def(
      "gather_rows",
      [](const Var& x, const Array& index) { return gather_rows(x, copy_of(index)); }, "x"_a,
      "index"_a, doc::gather_rows, ReleaseLock());
}

void bind_shapes(nb::module_& ops) {
  ops.def(
      "reshape", [](const Var& x, const Sizes& shape) { return reshape(x, Shape(shape)); }, "x"_a,
      "shape"_a, doc::reshape, ReleaseLock());
  ops.def("transpose", &transpose, "x"_a, "axis_a"_a, "axis_b"_a, doc::transpose, ReleaseLock());
  ops.def("split_heads", &split_heads, "x"_a, "heads"_a, "part"_a = 0, "parts"_a = 1,
          doc::split_heads, ReleaseLock());
  ops.def("merge_heads", &merge_heads, "x"_a, doc::merge_heads, ReleaseLock());
  ops.def("slice", &slice, "x"_a, "axis"_a, "begin"_a, "end"_a, doc::slice, ReleaseLock());
  ops.def("concat", &concat, "parts"_a, "axis"_a, doc::concat, ReleaseLock());
  ops.def(
      "sum", [](const Var& x, std::optional<int> axis) { return axis ? sum(x, *axis) : sum(x); },
      "x"_a, "axis"_a = nb::none(),
      "The sum of all elements → [1], or over one axis, which the result does not have.",
      ReleaseLock());
  ops.def(
      "mean", [](const Var& x, std::optional<int> axis) { return axis ? mean(x, *axis) : mean(x); },
      "x"_a, "axis"_a = nb::none(),
      "The mean of all elements → [1], or over one axis, which the result does not have.",
      ReleaseLock());
  ops.def("row_norms", &row_norms, "x"_a, doc::row_norms, ReleaseLock());
  ops.def(
      "distillation_loss",
      [](const Var& logits, const Var& target, double temperature, double normaliser) {
        return distillation_loss(logits, constant_of(target), temperature, normaliser);
      },
      "logits"_a, "target"_a, "temperature"_a, "normaliser"_a, doc::distillation_loss,
      ReleaseLock());
  ops.def(
      "cross_entropy",
      [](const Var& logits, const Array& labels, double normaliser, double z_loss) {
        return cross_entropy(logits, copy_of(labels), normaliser, {}, z_loss);
      },
      "logits"_a, "labels"_a, "normaliser"_a = 0.0, "z_loss"_a = 0.0, doc::cross_entropy,
      ReleaseLock());
  ops.def(
      "mean_squared_error",
      [](const Var& x, const Var& target) { return mean_squared_error(x, constant_of(target)); },
      "x"_a, "target"_a, doc::mean_squared_error, ReleaseLock());
}

}  // namespace

void bind_ops(nb::module_& module) {
  nb::module_ ops = module.def_submodule("ops", "All differentiable functions.");
  bind_elementwise(ops);
  bind_products(ops);
  bind_attention(ops);
  bind_rows(ops);
  bind_shapes(ops);
}

}  // namespace nystrom::python
