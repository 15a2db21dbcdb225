#include "nn/attention_watch.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "nn/attention_diagnostics.h"
#include "nn/layer_kinds.h"

namespace nystrom {
namespace {

constexpr std::int64_t max_positions = 64;

/// One sequence of a batch as a dense batch of its own, of constants.
struct Sequence {
  Ragged batch;
  AttentionInputs inputs;
  Sequence(const AttentionInputs& in, std::int64_t number)
      : batch(alone(in.batch, number)),
        inputs{in.batch.dense() ? part_of(in.hidden.value(), number)
                                : tokens_of(in.hidden.value(), in.batch, number),
               of_heads(in.queries, in.batch, number),
               of_heads(in.keys, in.batch, number),
               of_heads(in.values, in.batch, number),
               batch,
               in.query,
               in.key,
               {},
               in.rope_theta} {}
  Sequence(const Sequence&) = delete;  // inputs refer to batch
  Sequence& operator=(const Sequence&) = delete;

  /// x [r, h, d] or [b, h, n, d] of the whole batch: [1, h, n, d].
  static Tensor of_heads(const Var& x, const Ragged& whole, std::int64_t number) {
    if (whole.dense()) return part_of(x.value(), number);
    return tokens_of(x.value(), whole, number).transpose(1, 2);
  }

 private:
  static Tensor part_of(const Tensor& x, std::int64_t number) {
    return x.slice(0, number, number + 1);
  }
  static Tensor tokens_of(const Tensor& x, const Ragged& whole, std::int64_t number) {
    const RowRange rows = whole.tokens(number);
    const Tensor own = x.slice(0, rows.begin, rows.end).contiguous();
    return own.reshape(own.shape().with(0, 1));
  }
  static Ragged alone(const Ragged& whole, std::int64_t number) {
    const Tensor& mask = whole.key_mask();
    if (mask.defined())
      return Ragged(mask.slice(0, number, number + 1).to(cpu_device), mask.device(), Padding::kept);
    return {1, whole.tokens(number).size()};
  }
};

/// Up to `max_positions` of `places`.
std::vector<std::int64_t> sampled(const std::vector<std::int64_t>& places) {
  const std::int64_t count = std::ssize(places), taken = std::min(count, max_positions);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < taken; ++i)
    positions.push_back(places[static_cast<std::size_t>(i * count / taken)]);
  return positions;
}

/// x [1, h, n, d] at `positions`: [1, h, positions, d].
Var at_positions(const Var& x, const std::vector<std::int64_t>& positions) {
  const auto count = static_cast<std::int64_t>(positions.size()), heads = x.dim(1),
             width = x.dim(3);
  const Tensor index = Tensor::from(positions, {count}).to(x.value().device());
  const Var rows = gather_rows(reshape(transpose(x, 1, 2), {x.dim(2), heads * width}), index);
  return transpose(reshape(rows, {1, count, heads, width}), 1, 2);
}

double norm_of(const Tensor& x) { return std::sqrt(sum_of_squares(x.contiguous())); }

double error_of(const Tensor& x, const Tensor& exact) {
  const Tensor y = exact.cast(accumulate_dtype(exact.dtype()));
  return relative_error(norm_of((Var(x.cast(y.dtype())) - y).value()), norm_of(y));
}

/// The entropy of softmax(scale · queries keysᵀ), averaged over heads and queries [1, h, q, d].
double mean_entropy(const Var& queries, const Var& keys, double scale) {
  const DType exact = accumulate_dtype(queries.dtype());
  const Var scores = matmul(scale * cast(queries, exact), transpose(cast(keys, exact), -1, -2));
  const std::vector<double> heads = attention_entropies(softmax(scores).value());
  return std::accumulate(heads.begin(), heads.end(), 0.0) / static_cast<double>(heads.size());
}

/// The layer number in "nystromformer.encoder.layer.3.attention.self.query.weight".
std::int64_t layer_of(const AttentionInputs& in) {
  constexpr std::string_view before = "layer.";
  const std::string& name = in.query.weight().name();
  const std::size_t at = name.find(before);
  require(at != std::string::npos, "attention outside of a layer: {}", name);
  std::int64_t layer = 0;
  std::from_chars(name.data() + at + before.size(), name.data() + name.size(), layer);
  return layer;
}

/// `x` with a hook: the backward pass calls `see` with its gradient.
Var with_gradient_seen(const Var& x, std::function<void(const Tensor&)> see) {
  const auto backward = [see = std::move(see)](const Tensor& dy, Grads grads) {
    see(dy);
    grads.add(0, dy);
  };
  return record("watch", x.value(), {x}, backward, {.strided = true});
}

}  // namespace

AttentionWatch::AttentionWatch(const ModelConfig& config)
    : config_(config),
      approximation_(make_nystrom(config.without_window())),
      exact_(config.without_window()) {
  require(config.has_kind(AttentionKind::nystrom),
          "AttentionWatch is for attention.kind nystrom, got {}", describe_kinds(config));
}

void AttentionWatch::observe(const AttentionInputs& in, Var& output) {
  const std::int64_t layer = layer_of(in);
  if (!Tape::is_active() || config_.kind_of(layer) != AttentionKind::nystrom) return;
  const auto& counts = in.batch.counts();
  const std::int64_t row = std::max_element(counts.begin(), counts.end()) - counts.begin();
  const std::int64_t tokens = counts[static_cast<std::size_t>(row)];
  if (tokens == 0) return;
  AttentionFigures& figures = layers_[layer];
  figures = {};
  const auto sequence = std::make_shared<Sequence>(in, row);
  const bool has_window = config_.has_window(layer);
  const bool exact = !approximation_ || approximation_->is_exact(tokens);
  {
    const NoGrad constant;
    const std::vector<std::int64_t> places = sequence->batch.places(0), positions = sampled(places);
    const AttentionInputs& own = sequence->inputs;
    const Var queries = at_positions(own.queries, positions);
    const AttentionInputs sampled{own.hidden, queries,   own.keys, own.values,
                                  own.batch,  own.query, own.key};
    // Of a layer with a window, the part that is not its own.
    const Var approximated = has_window && approximation_
                                 ? (*approximation_)(own)
                                 : Var(Sequence::of_heads(output, in.batch, row));
    figures.error =
        error_of(at_positions(approximated, positions).value(), exact_(sampled).value());
    figures.entropy = mean_entropy(queries, at_positions(own.keys, places),
                                   1 / std::sqrt(static_cast<double>(config_.head_dim())));
    if (!exact && config_.attention.inverse == Inverse::iterative) {
      const auto residuals = inverse_residuals(approximation_->landmark_matrix(own),
                                               config_.attention.inverse_iterations)
                                 .back();
      figures.residual = std::accumulate(residuals.begin(), residuals.end(), 0.0) /
                         static_cast<double>(residuals.size());
    }
  }
  if (exact || has_window || config_.attention.inverse == Inverse::identity) return;
  output = with_gradient_seen(
      output, [this, sequence, row, &figures, batch = in.batch](const Tensor& dy) {
        figures.inverse_gradient = norm_of(approximation_->landmark_matrix_gradient(
            sequence->inputs, Sequence::of_heads(dy, batch, row)));
      });
}

}  // namespace nystrom
