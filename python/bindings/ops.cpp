// nystrom.ops: the functions of autograd/ops.h.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "autograd/ops.h"
#include "docs.h"
#include "python/bindings/bindings.h"

namespace nystrom::python {
namespace {

using Sizes = std::vector<std::int64_t>;

/// An argument that may be left out.
Tensor tensor_of(const std::optional<Array>& array) {
  return array ? python::tensor_of(*array) : Tensor();
}

constexpr EnumName<Unary> unary_names[] = {
    {Unary::gelu_erf, "gelu_erf"}, {Unary::gelu_tanh, "gelu_tanh"},
    {Unary::relu, "relu"},         {Unary::tanh, "tanh"},
    {Unary::exp, "exp"},           {Unary::square, "square"}};
constexpr EnumName<Precision> precision_names[] = {{Precision::full, "full"},
                                                   {Precision::tf32, "tf32"}};
constexpr EnumName<EmptyRows> empty_rows_names[] = {{EmptyRows::zero, "zero"},
                                                    {EmptyRows::uniform, "uniform"}};
constexpr EnumName<PinvScale> scale_names[] = {{PinvScale::per_matrix, "per_matrix"},
                                               {PinvScale::whole_batch, "whole_batch"}};

void bind_elementwise(nb::module_& ops) {
  ops.def("affine", &affine, nb::arg("x"), nb::arg("scale"), nb::arg("shift") = 0.0, doc::affine,
          ReleaseLock());
  ops.def("gelu_erf", &gelu_erf, nb::arg("x"), doc::gelu_erf, ReleaseLock());
  ops.def("gelu_tanh", &gelu_tanh, nb::arg("x"), doc::gelu_erf, ReleaseLock());
  ops.def("relu", &relu, nb::arg("x"), doc::relu, ReleaseLock());
  ops.def(
      "tanh", [](const Var& x) { return tanh(x); }, nb::arg("x"), doc::tanh, ReleaseLock());
  ops.def(
      "exp", [](const Var& x) { return exp(x); }, nb::arg("x"), doc::exp, ReleaseLock());
  ops.def("square", &square, nb::arg("x"), doc::square, ReleaseLock());
  ops.def(
      "cast", [](const Var& x, const std::string& type) { return cast(x, dtype_called(type)); },
      nb::arg("x"), nb::arg("dtype"), doc::cast, ReleaseLock());
  ops.def(
      "round_to",
      [](const Var& x, const std::string& type) { return round_to(x, dtype_called(type)); },
      nb::arg("x"), nb::arg("dtype"), doc::round_to, ReleaseLock());
  ops.def(
      "dropout",
      [](const Var& x, double p, const Array& sample_ids, std::uint64_t seed, std::uint64_t step,
         std::uint32_t site) {
        return dropout(x, p, {seed, step, site}, python::tensor_of(sample_ids));
      },
      nb::arg("x"), nb::arg("p"), nb::arg("sample_ids"), nb::arg("seed") = 0, nb::arg("step") = 0,
      nb::arg("site") = 0, doc::dropout, ReleaseLock());
}

void bind_products(nb::module_& ops) {
  ops.def(
      "linear",
      [](const Var& x, const Var& weight, const std::optional<Var>& bias,
         const std::string& precision) {
        return linear(x, weight, bias.value_or(Var()),
                      value_called<Precision>("precision", precision, precision_names));
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias").none() = nb::none(),
      nb::arg("precision") = "full", doc::linear, ReleaseLock());
  ops.def(
      "linear_unrounded",
      [](const Var& x, const Var& weight, const std::optional<Var>& bias) {
        return linear_unrounded(x, weight, bias.value_or(Var()));
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias").none() = nb::none(), doc::linear_unrounded,
      ReleaseLock());
  ops.def(
      "feed_forward",
      [](const std::string& activation, const Var& x, const Var& up,
         const std::optional<Var>& up_bias, const Var& down, const std::optional<Var>& down_bias) {
        return feed_forward(value_called<Unary>("activation", activation, unary_names), x,
                            {up, up_bias.value_or(Var())}, {down, down_bias.value_or(Var())});
      },
      nb::arg("activation"), nb::arg("x"), nb::arg("up"), nb::arg("up_bias").none(),
      nb::arg("down"), nb::arg("down_bias").none() = nb::none(), doc::feed_forward, ReleaseLock());
  ops.def(
      "gated_linear",
      [](const std::string& activation, const Var& x, const Var& weight,
         const std::optional<Var>& bias) {
        return gated_linear(value_called<Unary>("activation", activation, unary_names), x, weight,
                            bias.value_or(Var()));
      },
      nb::arg("activation"), nb::arg("x"), nb::arg("weight"), nb::arg("bias").none() = nb::none(),
      doc::gated_linear, ReleaseLock());
  ops.def("joint_linear", &joint_linear, nb::arg("x"), nb::arg("weights"), nb::arg("biases"),
          doc::joint_linear, ReleaseLock());
  ops.def("matmul", &matmul, nb::arg("a"), nb::arg("b"), doc::matmul, ReleaseLock());
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
  options.pinv_scale = value_called<PinvScale>("pinv_scale", pinv_scale, scale_names);
  options.queries = options.keys = spans_of(spans);
  options.key_mask = tensor_of(key_mask);
  options.empty_rows = value_called<EmptyRows>("empty_rows", empty_rows, empty_rows_names);
  return nystrom_attention(
      NystromInputs::joint(hidden, qkv, heads, {weights, biases}, taps.value_or(Var())), options);
}

void bind_attention(nb::module_& ops) {
  ops.def("nystrom_attention", &bound_nystrom_attention, nb::arg("hidden"), nb::arg("qkv"),
          nb::arg("weights"), nb::arg("biases"), nb::arg("taps").none() = nb::none(),
          nb::arg("heads") = 1, nb::arg("landmarks") = 1, nb::arg("iterations") = 6,
          nb::arg("scale") = 1.0, nb::arg("pinv_scale") = "per_matrix",
          nb::arg("spans").none() = nb::none(), nb::arg("key_mask").none() = nb::none(),
          nb::arg("empty_rows") = "zero", doc::nystrom_attention, ReleaseLock());
  ops.def("softmax", &softmax, nb::arg("x"), doc::softmax, ReleaseLock());
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
        options.key_mask = tensor_of(key_mask);
        options.empty_rows = value_called<EmptyRows>("empty_rows", empty_rows, empty_rows_names);
        options.out = out ? dtype_called(*out) : q.dtype();
        return attention(q, k, v, options);
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("scale") = 1.0,
      nb::arg("queries").none() = nb::none(), nb::arg("keys").none() = nb::none(),
      nb::arg("key_mask").none() = nb::none(), nb::arg("empty_rows") = "zero",
      nb::arg("out").none() = nb::none(), nb::arg("reach").none() = nb::none(), doc::attention,
      ReleaseLock());
  ops.def(
      "rotate",
      [](const Var& x, const Array& table, const std::optional<Array>& spans) {
        return rotate(x, spans_of(spans), python::tensor_of(table));
      },
      nb::arg("x"), nb::arg("table"), nb::arg("spans").none() = nb::none(), doc::rotate,
      ReleaseLock());
  ops.def(
      "segment_means",
      [](const Var& x, std::int64_t segments, const std::optional<Array>& spans) {
        return segment_means(x, spans_of(spans), segments);
      },
      nb::arg("x"), nb::arg("segments"), nb::arg("spans").none() = nb::none(), doc::segment_means,
      ReleaseLock());
  ops.def(
      "pseudo_inverse_iterative",
      [](const Var& a, std::int64_t iterations, const std::string& scale) {
        return pseudo_inverse_iterative(a, iterations,
                                        value_called<PinvScale>("scale", scale, scale_names));
      },
      nb::arg("a"), nb::arg("iterations"), nb::arg("scale") = "per_matrix",
      doc::pseudo_inverse_iterative, ReleaseLock());
  ops.def("pseudo_inverse_exact", &pseudo_inverse_exact, nb::arg("a"), doc::pseudo_inverse_exact,
          ReleaseLock());
  ops.def(
      "sequence_conv",
      [](const Var& x, const Var& weight, const std::optional<Array>& spans) {
        return sequence_conv(x, weight, spans_of(spans));
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("spans").none() = nb::none(), doc::sequence_conv,
      ReleaseLock());
  ops.def("layer_norm", &layer_norm, nb::arg("x"), nb::arg("gamma"), nb::arg("beta"),
          nb::arg("epsilon"), doc::layer_norm, ReleaseLock());
  ops.def(
      "residual_dropout",
      [](const Var& x, const Var& residual, double p, const std::optional<Array>& sample_ids,
         std::uint64_t seed, std::uint64_t step, std::uint32_t site) {
        return residual_dropout(x, residual, {p, {seed, step, site}, tensor_of(sample_ids)});
      },
      nb::arg("x"), nb::arg("residual"), nb::arg("p") = 0.0,
      nb::arg("sample_ids").none() = nb::none(), nb::arg("seed") = 0, nb::arg("step") = 0,
      nb::arg("site") = 0, doc::residual_dropout, ReleaseLock());
  ops.def(
      "residual_layer_norm",
      [](const Var& x, const Var& residual, const Var& gamma, const Var& beta, double epsilon,
         double p, const std::optional<Array>& sample_ids, std::uint64_t seed, std::uint64_t step,
         std::uint32_t site) {
        const DropoutOptions options{p, {seed, step, site}, tensor_of(sample_ids)};
        return residual_layer_norm(x, residual, options, gamma, beta, epsilon);
      },
      nb::arg("x"), nb::arg("residual"), nb::arg("gamma"), nb::arg("beta"), nb::arg("epsilon"),
      nb::arg("p") = 0.0, nb::arg("sample_ids").none() = nb::none(), nb::arg("seed") = 0,
      nb::arg("step") = 0, nb::arg("site") = 0, doc::residual_layer_norm, ReleaseLock());
}

void bind_rows(nb::module_& ops) {
  ops.def(
      "embedding",
      [](const Var& table, const Array& ids, std::int64_t padding_row) {
        return embedding(table, python::tensor_of(ids), padding_row);
      },
      nb::arg("table"), nb::arg("ids"), nb::arg("padding_row") = -1, doc::embedding, ReleaseLock());
  ops.def(
      "gather_rows",
      [](const Var& x, const Array& index) { return gather_rows(x, python::tensor_of(index)); },
      nb::arg("x"), nb::arg("index"), doc::gather_rows, ReleaseLock());
}

void bind_shapes(nb::module_& ops) {
  ops.def(
      "reshape", [](const Var& x, const Sizes& shape) { return reshape(x, Shape(shape)); },
      nb::arg("x"), nb::arg("shape"), doc::reshape, ReleaseLock());
  ops.def("transpose", &transpose, nb::arg("x"), nb::arg("axis_a"), nb::arg("axis_b"),
          doc::transpose, ReleaseLock());
  ops.def("split_heads", &split_heads, nb::arg("x"), nb::arg("heads"), nb::arg("part") = 0,
          nb::arg("parts") = 1, doc::split_heads, ReleaseLock());
  ops.def("merge_heads", &merge_heads, nb::arg("x"), doc::merge_heads, ReleaseLock());
  ops.def("slice", &slice, nb::arg("x"), nb::arg("axis"), nb::arg("begin"), nb::arg("end"),
          doc::slice, ReleaseLock());
  ops.def("concat", &concat, nb::arg("parts"), nb::arg("axis"), doc::concat, ReleaseLock());
  ops.def(
      "sum", [](const Var& x, std::optional<int> axis) { return axis ? sum(x, *axis) : sum(x); },
      nb::arg("x"), nb::arg("axis").none() = nb::none(),
      "The sum of all elements → [1], or over one axis, which the result does not have.",
      ReleaseLock());
  ops.def(
      "mean", [](const Var& x, std::optional<int> axis) { return axis ? mean(x, *axis) : mean(x); },
      nb::arg("x"), nb::arg("axis").none() = nb::none(),
      "The mean of all elements → [1], or over one axis, which the result does not have.",
      ReleaseLock());
  ops.def("row_norms", &row_norms, nb::arg("x"), doc::row_norms, ReleaseLock());
  ops.def(
      "distillation_loss",
      [](const Var& logits, const Array& target, double temperature, double normaliser) {
        return distillation_loss(logits, python::tensor_of(target), temperature, normaliser);
      },
      nb::arg("logits"), nb::arg("target"), nb::arg("temperature"), nb::arg("normaliser"),
      doc::distillation_loss, ReleaseLock());
  ops.def(
      "cross_entropy",
      [](const Var& logits, const Array& labels, double normaliser, double z_loss) {
        return cross_entropy(logits, python::tensor_of(labels), normaliser, {}, z_loss);
      },
      nb::arg("logits"), nb::arg("labels"), nb::arg("normaliser") = 0.0, nb::arg("z_loss") = 0.0,
      doc::cross_entropy, ReleaseLock());
  ops.def(
      "mean_squared_error",
      [](const Var& x, const Array& target) {
        return mean_squared_error(x, python::tensor_of(target));
      },
      nb::arg("x"), nb::arg("target"), doc::mean_squared_error, ReleaseLock());
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
