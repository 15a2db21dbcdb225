#include "nn/model.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/check.h"

namespace nystrom {
namespace {

const ModelConfig& checked(const ModelConfig& config) {
  const auto found = messages_of(problems(config));
  require_input(found.empty(), "the model cannot be built: {}", fmt::join(found, "; "));
  return config;
}

Var first_token(const Var& hidden) {
  return reshape(slice(hidden, 1, 0, 1), {hidden.dim(0), hidden.dim(2)});
}

/// The indices of the first tokens of `ids` [b, n] in the flattened [b · n].
std::vector<std::int64_t> first_positions(const Tensor& ids) {
  std::vector<std::int64_t> positions;
  for (std::int64_t row = 0; row < ids.dim(0); ++row) positions.push_back(row * ids.dim(1));
  return positions;
}

/// The positions in the flattened [b · n] that a pooling reads; nothing: all.
std::optional<std::vector<std::int64_t>> read_by(SentencePooling pooling, const Tensor& ids,
                                                 const SequenceMask& mask) {
  const bool last = pooling == SentencePooling::lasttoken;
  if (pooling != SentencePooling::cls && !last) return std::nullopt;
  std::vector<std::int64_t> positions = first_positions(ids);
  if (!last) return positions;
  const std::vector<std::int64_t> last_tokens = mask.last_positions();
  for (std::size_t row = 0; row < positions.size(); ++row)
    positions[row] += std::max<std::int64_t>(last_tokens[row], 0);
  return positions;
}

/// One number for each row of a batch, [b, 1], in the accumulate type of `hidden`.
Var row_factors(const SequenceMask& mask, const Var& hidden,
                const std::function<double(std::int64_t count)>& factor) {
  std::vector<double> factors;
  for (const std::int64_t count : mask.counts())
    factors.push_back(factor(std::max<std::int64_t>(count, 1)));
  return Tensor::from(factors, {std::ssize(factors), 1})
      .cast(accumulate_dtype(hidden.dtype()))
      .to(hidden.value().device());
}

/// Whether each position of the flattened [b · n] is a token.
std::vector<bool> tokens_of(const SequenceMask& mask) {
  std::vector<bool> tokens(static_cast<std::size_t>(mask.batch() * mask.length()), true);
  if (!mask.valid().defined()) return tokens;
  const Tensor host = mask.valid().to(cpu_device).contiguous();
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = host.data<std::uint8_t>()[i] != 0;
  return tokens;
}

/// Σ place · x / Σ place over the tokens of each row, whose places count from 1.
Var place_weighted_mean(const Var& hidden, const SequenceMask& mask) {
  const std::int64_t length = mask.length();
  const std::vector<bool> tokens = tokens_of(mask);
  std::vector<double> weights(tokens.size(), 0);
  for (std::int64_t row = 0; row < mask.batch(); ++row) {
    double place = 0, total = 0;
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (place > 0 || tokens[at]) ++place;
      if (tokens[at]) total += weights[at] = place;
    }
    for (std::int64_t i = row * length; total > 0 && i < (row + 1) * length; ++i)
      weights[static_cast<std::size_t>(i)] /= total;
  }
  const DType dtype = accumulate_dtype(hidden.dtype());
  const Var rows =
      Tensor::from(weights, {mask.batch(), 1, length}).cast(dtype).to(hidden.value().device());
  return reshape(matmul(rows, cast(hidden, dtype)), {mask.batch(), hidden.dim(2)});
}

/// The largest number of each column over the tokens of each row. Zeros for a row without tokens.
Var largest_of_tokens(const Var& hidden, const SequenceMask& mask) {
  const std::int64_t length = mask.length(), width = hidden.dim(2);
  const std::vector<bool> tokens = tokens_of(mask);
  const std::vector<double> values = hidden.value().to(cpu_device).contiguous().to_doubles();
  std::vector<std::int64_t> chosen;
  for (std::int64_t row = 0; row < mask.batch(); ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      std::int64_t best = -1;
      for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
        const std::int64_t at = i * width + column;
        const bool larger = best < 0 || values[static_cast<std::size_t>(at)] >
                                            values[static_cast<std::size_t>(best)];
        if (tokens[static_cast<std::size_t>(i)] && larger) best = at;
      }
      chosen.push_back(best);
    }
  }
  const std::int64_t count = std::ssize(chosen);
  const Var numbers = gather_rows(reshape(hidden, {mask.batch() * length * width, 1}),
                                  Tensor::from(chosen, {count}));
  return cast(reshape(numbers, {mask.batch(), width}), accumulate_dtype(hidden.dtype()));
}

Var mean_token(const Var& hidden, const SequenceMask& mask) {
  return reshape(cast(segment_means(hidden, mask.valid(), 1), hidden.dtype()),
                 {hidden.dim(0), hidden.dim(2)});
}

}  // namespace

Model::Model(const ModelConfig& config)
    : config_(checked(config)), encoder_(Scope(store_) / "nystromformer", config_) {
  const Scope root(store_);
  if (config_.head == Head::masked_lm && config_.sentence_order)
    sentence_order_.emplace(root / "cls" / "seq_relationship", config_.hidden_size, 2);
  switch (config_.head) {
    case Head::masked_lm:
      masked_lm_.emplace(root / "cls" / "predictions", config_, encoder_.embeddings().words());
      break;
    case Head::sequence_classification: sequence_.emplace(root / "classifier", config_); break;
    case Head::token_classification: tokens_.emplace(root, config_); break;
    case Head::question_answering:
      questions_.emplace(root / "qa_outputs", config_.hidden_size, 2);
      break;
    case Head::multiple_choice: choice_.emplace(root, config_); break;
    case Head::none: break;
  }
  const EmbeddingConfig& embedding = config_.embedding;
  std::int64_t width = config_.hidden_size;
  for (std::size_t i = 0; i < embedding.dense.size(); ++i) {
    const Scope scope = root / "embedding" / "dense" / std::to_string(i);
    vector_layers_.emplace_back(Linear(scope, width, embedding.dense[i].width),
                                embedding.dense[i].activation);
    width = embedding.dense[i].width;
  }
  if (embedding.projection)
    vector_layers_.emplace_back(
        Linear(root / "embedding" / "projection", width, *embedding.projection),
        embedding.projection_act);
}

struct Model::Pass {
  ModelInput input;
  RunContext run;
  EncoderRows rows;
  /// The head reads the hidden states at `positions` of the flattened [b · n], or all.
  Pass(const Model& model, const ModelInput& given, const RunContext& context,
       const std::optional<std::vector<std::int64_t>>& positions = {})
      : input(given), run(context), rows{model.mask_of(given)} {
    const Device device = model.store_.values().device();
    const Tensor samples = run.training ? run.sample_ids.to(cpu_device) : Tensor();
    // In semantics transformers padding takes part in attention.
    if (model.config_.attention.semantics == Semantics::nystrom && (run.logits_only || positions))
      rows.tokens = TokenRows::of_tokens(rows.mask, samples, device);
    if (positions) rows.read = rows.tokens.chosen(*positions, rows.mask, samples, device);
    // Ids stay on the CPU, where the embedding checks them.
    for (Tensor* tensor : {&input.features, &run.sample_ids}) *tensor = tensor->to(device);
  }
};

SequenceMask Model::mask_of(const ModelInput& input) const {
  const Tensor& positions = config_.embed_dim ? input.features : input.input_ids;
  require(positions.defined(), "the model got no {}", config_.embed_dim ? "features" : "input_ids");
  if (!input.attention_mask.defined()) return {positions.dim(0), positions.dim(1)};
  require(input.attention_mask.dim(0) == positions.dim(0) &&
              input.attention_mask.dim(1) == positions.dim(1),
          "attention_mask is {}, expected [{}, {}]", input.attention_mask.shape(), positions.dim(0),
          positions.dim(1));
  return SequenceMask(input.attention_mask, store_.values().device());
}

Var Model::last_valid_step(const Var& hidden, const SequenceMask& mask) const {
  std::vector<std::int64_t> rows = mask.last_positions();
  for (std::size_t b = 0; b < rows.size(); ++b) {
    if (rows[b] >= 0) rows[b] += static_cast<std::int64_t>(b) * mask.length();
  }
  return gather_rows(reshape(hidden, {mask.batch() * mask.length(), hidden.dim(2)}),
                     Tensor::from(rows, {mask.batch()}));
}

bool Model::reads_first_token() const {
  return choice_ || (sequence_ && config_.pooling == Pooling::first && !config_.embed_dim);
}

Var Model::classify(const Var& pooled, const Pass& pass) const {
  const std::int64_t rows = pooled.dim(0);
  if (!config_.has_towers()) return (*sequence_)(pooled, pass.run);
  // From here on a row is a pair, with the sample id of its first text.
  RunContext run = pass.run;
  if (run.sample_ids.defined())
    run.sample_ids =
        run.sample_ids.reshape({rows / 2, 2}).slice(1, 0, 1).contiguous().reshape({rows / 2});
  return (*sequence_)(tower_features(pooled), run);
}

ModelOutput Model::operator()(const ModelInput& input, const RunContext& run) const {
  const bool first_only = run.logits_only && reads_first_token();
  const Pass pass(*this, input, run,
                  first_only ? std::optional(first_positions(input.input_ids)) : std::nullopt);
  const Var hidden = encoder_(pass.input, pass.rows, pass.run);
  ModelOutput out;
  if (first_only) {
    out.logits = sequence_ ? classify(hidden, pass) : (*choice_)(hidden);
    return out;
  }
  out.last_hidden_state = hidden;
  if (masked_lm_) out.logits = (*masked_lm_)(hidden);
  if (config_.embed_dim) out.output = last_valid_step(hidden, pass.rows.mask);
  if (sequence_) {
    const bool means = config_.pooling == Pooling::mean;
    out.logits = classify(means               ? mean_token(hidden, pass.rows.mask)
                          : config_.embed_dim ? out.output
                                              : first_token(hidden),
                          pass);
  }
  if (tokens_) out.logits = (*tokens_)(hidden, pass.run);
  if (choice_) out.logits = (*choice_)(first_token(hidden));
  if (questions_) {
    const Var both = questions_->unrounded(hidden);
    out.start_logits = reshape(slice(both, 2, 0, 1), {hidden.dim(0), hidden.dim(1)});
    out.end_logits = reshape(slice(both, 2, 1, 2), {hidden.dim(0), hidden.dim(1)});
  }
  return out;
}

Var Model::pool(const Var& hidden, const SequenceMask& mask, SentencePooling pooling) const {
  const auto means = [&](std::int64_t segments) {
    return segment_means(hidden, mask.valid(), segments);
  };
  switch (pooling) {
    case SentencePooling::cls:
    case SentencePooling::lasttoken: return cast(hidden, accumulate_dtype(hidden.dtype()));
    case SentencePooling::mean: return mean(means(1), 1);
    case SentencePooling::landmarks: {
      // Segments without tokens are zeros and do not count.
      const std::int64_t landmarks = config_.attention.num_landmarks;
      return sum(means(landmarks), 1) * row_factors(mask, hidden, [&](std::int64_t count) {
               return 1.0 / static_cast<double>(std::min(count, landmarks));
             });
    }
    case SentencePooling::max: return largest_of_tokens(hidden, mask);
    case SentencePooling::mean_sqrt_len_tokens:
      return mean(means(1), 1) * row_factors(mask, hidden, [](std::int64_t count) {
               return std::sqrt(static_cast<double>(count));
             });
    case SentencePooling::weightedmean: return place_weighted_mean(hidden, mask);
  }
  return {};
}

Var Model::sentence_vectors(const ModelInput& input, SentencePooling pooling,
                            const RunContext& run) const {
  require(!config_.embed_dim, "sentence_vectors needs a model of token ids, got one of features");
  RunContext tokens_only = run;
  tokens_only.logits_only = true;
  const Pass pass(*this, input, tokens_only, read_by(pooling, input.input_ids, mask_of(input)));
  const Var hidden = encoder_(pass.input, pass.rows, pass.run);
  Var vectors = pool(hidden, pass.rows.mask, pooling);
  for (const auto& [layer, activation] : vector_layers_)
    vectors = activate(activation, layer.unrounded(cast(vectors, hidden.dtype())));
  return vectors;
}

Var Model::encode_for_masked_lm(const ModelInput& input, const RunContext& run,
                                const std::vector<std::int64_t>& positions) const {
  require(masked_lm_.has_value(), "masked_lm needs a model with the masked-LM head, got {}",
          enum_name(config_.head));
  const Pass pass(*this, input, run, positions);
  return encoder_(pass.input, pass.rows, pass.run);
}

Var Model::masked_lm_logits(const ModelInput& input, const std::vector<std::int64_t>& positions,
                            const RunContext& run) const {
  return (*masked_lm_)(encode_for_masked_lm(input, run, positions));
}

MaskedLmOutput Model::masked_lm(const ModelInput& input, const Tensor& labels, double normaliser,
                                const RunContext& run) const {
  const Tensor host = labels.to(cpu_device).contiguous();
  const auto* label = host.data<std::int64_t>();
  std::vector<std::int64_t> rows, chosen;
  if (sentence_order_) rows = first_positions(host);
  const auto firsts = static_cast<std::int64_t>(rows.size());
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    if (label[i] == ignore_index) continue;
    rows.push_back(i);
    chosen.push_back(label[i]);
  }
  const Var hidden = encode_for_masked_lm(input, run, rows);
  const Var logits = (*masked_lm_)(slice(hidden, 0, firsts, hidden.dim(0)));
  const Shape count{std::ssize(chosen)};
  const Device device = logits.value().device();
  MaskedLmOutput out{
      {}, Tensor::empty(count, DType::i64, device), Tensor::from(chosen, count), logits};
  out.loss = cross_entropy(logits, out.labels, normaliser, out.predictions);
  if (sentence_order_) out.order_logits = sentence_order_->unrounded(slice(hidden, 0, 0, firsts));
  return out;
}

}  // namespace nystrom
