#include "nn/model.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/check.h"
#include "nn/nystrom.h"

namespace nystrom {
namespace {

const ModelConfig& checked(const ModelConfig& config) {
  const auto found = messages_of(problems(config));
  require_input(found.empty(), "the model cannot be built: {}", fmt::join(found, "; "));
  return config;
}

/// The first positions of all sequences in the flattened [b · n].
std::vector<std::int64_t> first_positions(const Ragged& batch) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < batch.batch(); ++i) positions.push_back(i * batch.length());
  return positions;
}

/// The last tokens of all sequences; of those without tokens the first position.
std::vector<std::int64_t> last_tokens(const Ragged& batch) {
  std::vector<std::int64_t> positions = first_positions(batch);
  const std::vector<std::int64_t> last = batch.last_positions();
  for (std::size_t row = 0; row < positions.size(); ++row)
    positions[row] += std::max<std::int64_t>(last[row], 0);
  return positions;
}

/// The rows of `hidden` at some positions, [p, hidden].
Var rows_at(const Var& hidden, const Ragged& batch, const std::vector<std::int64_t>& positions) {
  return gather_rows(flat_rows(hidden), batch.rows_at(positions));
}

/// The positions of all features in a batch that has a class token in front of each sequence.
std::vector<std::int64_t> behind_class_tokens(const Ragged& batch) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < batch.batch(); ++i)
    for (std::int64_t t = 1; t < batch.counts()[static_cast<std::size_t>(i)]; ++t)
      positions.push_back(i * batch.length() + t);
  return positions;
}

/// The positions that a pooling reads; nothing: all rows.
ReadPositions read_by(SentencePooling pooling, const Ragged& batch) {
  if (pooling == SentencePooling::cls) return first_positions(batch);
  if (pooling == SentencePooling::lasttoken) return last_tokens(batch);
  return {};
}

/// One number for each sequence of a batch, [b, 1], in the accumulate type of `hidden`.
Var row_factors(const Ragged& batch, const Var& hidden,
                const std::function<double(std::int64_t count)>& factor) {
  std::vector<double> factors;
  for (const std::int64_t count : batch.counts())
    factors.push_back(factor(std::max<std::int64_t>(count, 1)));
  return Tensor::from(factors, {std::ssize(factors), 1})
      .cast(accumulate_dtype(hidden.dtype()))
      .to(hidden.value().device());
}

/// The rows of a sequence that are tokens, in the flattened rows of the batch. Padding that is kept
/// is no token.
std::vector<std::int64_t> token_rows(const Ragged& batch, std::int64_t sequence) {
  std::vector<std::int64_t> rows = batch.places(sequence);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = batch.dense() ? rows[i] + sequence * batch.length()
                            : batch.tokens(sequence).begin + static_cast<std::int64_t>(i);
  return rows;
}

/// The rows that are tokens, and those of each sequence.
std::pair<Var, std::vector<RowRange>> rows_of_tokens(const Var& hidden, const Ragged& batch) {
  std::vector<std::int64_t> rows;
  std::vector<RowRange> ranges;
  const bool chosen = batch.key_mask().defined();  // padding has rows among them
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    if (!chosen) {
      ranges.push_back(batch.dense() ? RowRange{i * batch.length(), (i + 1) * batch.length()}
                                     : batch.tokens(i));
      continue;
    }
    const std::vector<std::int64_t> own = token_rows(batch, i);
    ranges.push_back({std::ssize(rows), std::ssize(rows) + std::ssize(own)});
    rows.insert(rows.end(), own.begin(), own.end());
  }
  const Var flat = flat_rows(hidden);
  return {chosen ? gather_rows(flat, Tensor::from(rows, {std::ssize(rows)})) : flat, ranges};
}

/// The means of the tokens in `segments` segments of each sequence, [b, segments, hidden], in the
/// accumulate type.
Var token_means(const Var& hidden, const Ragged& batch, std::int64_t segments) {
  if (!batch.key_mask().defined()) return segment_means(hidden, batch.all().keys, segments);
  const auto& [rows, ranges] = rows_of_tokens(hidden, batch);
  return segment_means(rows, RowSpans(ranges, hidden.value().device()), segments);
}

/// Σ place · x / Σ place over the tokens of each sequence. Places count from 1 at its first token.
Var place_weighted_mean(const Var& hidden, const Ragged& batch) {
  const std::int64_t rows = hidden.value().numel() / hidden.dim(-1);
  std::vector<double> weights(static_cast<std::size_t>(batch.batch() * rows), 0);
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    const std::vector<std::int64_t> places = batch.places(i), own = token_rows(batch, i);
    double total = 0;
    for (const std::int64_t place : places) total += static_cast<double>(place - places[0] + 1);
    for (std::size_t t = 0; t < own.size(); ++t)
      weights[static_cast<std::size_t>(i * rows + own[t])] =
          static_cast<double>(places[t] - places[0] + 1) / total;
  }
  const DType dtype = accumulate_dtype(hidden.dtype());
  const Var of_rows =
      Tensor::from(weights, {batch.batch(), rows}).cast(dtype).to(hidden.value().device());
  return matmul(of_rows, cast(flat_rows(hidden), dtype));
}

/// The largest number of each column over the tokens of each sequence. Zeros for one without
/// tokens.
Var largest_of_tokens(const Var& hidden, const Ragged& batch) {
  const std::int64_t width = hidden.dim(-1);
  const std::vector<double> values = hidden.value().to(cpu_device).contiguous().to_doubles();
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < batch.batch(); ++i) {
    const std::vector<std::int64_t> rows = token_rows(batch, i);
    for (std::int64_t column = 0; column < width; ++column) {
      std::int64_t best = -1;
      for (const std::int64_t row : rows) {
        const std::int64_t at = row * width + column;
        if (best < 0 ||
            values[static_cast<std::size_t>(at)] > values[static_cast<std::size_t>(best)])
          best = at;
      }
      chosen.push_back(best);
    }
  }
  const Var numbers = gather_rows(reshape(hidden, {hidden.value().numel(), 1}),
                                  Tensor::from(chosen, {std::ssize(chosen)}));
  return cast(reshape(numbers, {batch.batch(), width}), accumulate_dtype(hidden.dtype()));
}

/// Logits […, 1] of tokens as […].
Var token_logits(const Var& logits) { return reshape(logits, logits.shape().without(-1)); }

Var mean_token(const Var& hidden, const Ragged& batch) {
  return reshape(cast(token_means(hidden, batch, 1), hidden.dtype()),
                 {batch.batch(), hidden.dim(-1)});
}

}  // namespace

Model::Model(const ModelConfig& config)
    : config_(checked(config)), encoder_(Scope(store_) / "nystromformer", config_) {
  const Scope root(store_);
  if (config_.head == Head::masked_lm && config_.sentence_order)
    sentence_order_.emplace(root / "cls" / "seq_relationship", config_.hidden_size, 2);
  if (config_.head_transform && config_.head != Head::masked_lm &&
      config_.head != Head::replaced_tokens && config_.head != Head::masked_features &&
      config_.head != Head::none)
    transform_.emplace(root / "transform", config_, config_.hidden_size);
  switch (config_.head) {
    case Head::masked_lm:
      masked_lm_.emplace(root / "cls" / "predictions", config_, encoder_.embeddings().words());
      break;
    case Head::replaced_tokens: {
      head_ = replaced_token_head(root / "discriminator_predictions", config_);
      if (!config_.generator) break;
      const ModelConfig generator = generator_of(config_);
      const Scope scope = root / "generator" / "nystromformer";
      const Embeddings& shared = encoder_.embeddings();
      generator_.emplace(scope, generator, Embeddings(scope / "embeddings", generator, shared));
      masked_lm_.emplace(root / "generator" / "cls" / "predictions", generator, shared.words());
      break;
    }
    case Head::masked_features: head_ = masked_features_head(root, config_); break;
    case Head::sequence_classification:
      if (config_.pooling == Pooling::attention) gated_.emplace(root / "pooling", config_);
      head_ = sequence_classification_head(root / "classifier", config_);
      break;
    case Head::token_classification: head_ = token_classification_head(root, config_); break;
    case Head::question_answering:
      head_ = {.out = Linear(root / "qa_outputs", config_.hidden_size, 2)};
      break;
    case Head::multiple_choice: head_ = multiple_choice_head(root, config_); break;
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
  Ragged batch;
  Pass(const Model& model, ModelInput given, const RunContext& context, Padding padding)
      : input(std::move(given)), run(context), batch(model.batch_of(input, padding)) {
    const Device device = model.store_.values().device();
    // Ids stay on the CPU, where the embedding checks them.
    for (Tensor* tensor : {&input.features, &run.sample_ids}) *tensor = tensor->to(device);
  }
};

Ragged Model::batch_of(const ModelInput& input, Padding padding) const {
  const Tensor& positions = config_.embed_dim ? input.features : input.input_ids;
  require(positions.defined(), "the model got no {}", config_.embed_dim ? "features" : "input_ids");
  if (config_.has_class_token()) return batch_with_class_token(input);
  if (!input.offsets.empty()) {
    require(input.offsets.back() == positions.dim(0), "the offsets end at row {}, expected {}",
            input.offsets.back(), positions.dim(0));
    return {input.offsets, store_.values().device(), padding_of(config_, Padding::left_out),
            config_.fixed_length().value_or(0)};
  }
  if (!input.attention_mask.defined()) return {positions.dim(0), positions.dim(1)};
  require(input.attention_mask.dim(0) == positions.dim(0) &&
              input.attention_mask.dim(1) == positions.dim(1),
          "attention_mask is {}, expected [{}, {}]", input.attention_mask.shape(), positions.dim(0),
          positions.dim(1));
  return Ragged(input.attention_mask, store_.values().device(), padding_of(config_, padding));
}

Ragged Model::batch_with_class_token(const ModelInput& input) const {
  require_input(!input.attention_mask.defined(),
                "pooling token reads features without padding; leave attention_mask out");
  std::vector<std::int64_t> offsets = input.offsets;
  if (offsets.empty())
    for (std::int64_t i = 0; i <= input.features.dim(0); ++i)
      offsets.push_back(i * input.features.dim(1));
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] += static_cast<std::int64_t>(i);
  return {offsets, store_.values().device(), Padding::left_out, 0};
}

Var Model::last_valid_step(const Var& hidden, const Ragged& batch) const {
  const std::vector<std::int64_t> counts = batch.counts();
  const Var last = rows_at(hidden, batch, last_tokens(batch));
  if (std::ranges::none_of(counts, [](std::int64_t count) { return count == 0; })) return last;
  std::vector<std::int64_t> rows;  // zeros without a token
  for (std::int64_t i = 0; i < batch.batch(); ++i)
    rows.push_back(counts[static_cast<std::size_t>(i)] == 0 ? -1 : i);
  return gather_rows(last, Tensor::from(rows, {batch.batch()}));
}

bool Model::reads_first_token() const {
  if (config_.head == Head::masked_features) return false;
  if (config_.has_class_token()) return true;
  const bool pools =
      config_.head == Head::multiple_choice || config_.head == Head::sequence_classification;
  return pools && config_.pooling == Pooling::first && !config_.embed_dim;
}

Var Model::transformed(const Var& hidden) const {
  return transform_ ? (*transform_)(hidden) : hidden;
}

Var Model::classify(const Var& pooled, const Pass& pass) const {
  const std::int64_t rows = pooled.dim(0);
  if (!config_.has_towers()) return (*head_)(transformed(pooled), pass.run);
  // From here on a row is a pair, with the sample id of its first text.
  RunContext run = pass.run;
  if (run.sample_ids.defined())
    run.sample_ids =
        run.sample_ids.reshape({rows / 2, 2}).slice(1, 0, 1).contiguous().reshape({rows / 2});
  return (*head_)(tower_features(pooled), run);
}

Var Model::pooled(const ModelOutput& out, const Var& hidden, const Pass& pass) const {
  switch (config_.pooling) {
    case Pooling::mean: return mean_token(hidden, pass.batch);
    case Pooling::attention: {
      const auto& [rows, sequences] = rows_of_tokens(hidden, pass.batch);
      return (*gated_)(rows, sequences, pass.run);
    }
    case Pooling::first:
      if (config_.embed_dim) return out.output;
      [[fallthrough]];
    case Pooling::token: break;
  }
  return rows_at(hidden, pass.batch, first_positions(pass.batch));
}

ModelOutput Model::operator()(ModelInput input, const RunContext& run) const {
  Pass pass(*this, std::move(input), run, run.logits_only ? Padding::left_out : Padding::attends);
  const bool first_only = run.logits_only && reads_first_token();
  const bool padded = pass.input.offsets.empty();
  const Var hidden =
      encoder_(std::move(pass.input), pass.batch, pass.run,
               first_only ? ReadPositions(first_positions(pass.batch)) : std::nullopt);
  ModelOutput out;
  if (first_only) {
    out.logits = config_.head == Head::sequence_classification
                     ? classify(hidden, pass)
                     : token_logits((*head_)(transformed(hidden), pass.run));
    return out;
  }
  const Ragged& batch = pass.batch;
  out.last_hidden_state = batch.as_input(hidden);
  if (config_.embed_dim) out.output = last_valid_step(hidden, batch);
  const auto logits_of = [&](const Var& x) { return (*head_)(transformed(x), pass.run); };
  switch (config_.head) {
    case Head::masked_lm: out.logits = batch.as_input((*masked_lm_)(hidden)); break;
    case Head::replaced_tokens: out.logits = token_logits(batch.as_input(logits_of(hidden))); break;
    case Head::masked_features: {
      if (!config_.has_class_token()) {
        out.logits = batch.as_input(logits_of(hidden));
        break;
      }
      const Var said = logits_of(rows_at(hidden, batch, behind_class_tokens(batch)));
      out.logits = padded ? reshape(said, {batch.batch(), batch.length() - 1, said.dim(1)}) : said;
      break;
    }
    case Head::sequence_classification:
      out.logits = classify(pooled(out, hidden, pass), pass);
      break;
    case Head::token_classification:
      out.logits = batch.as_input((*head_)(transformed(hidden), batch.of(pass.run)));
      break;
    case Head::question_answering: {
      const Var both = batch.in_places(logits_of(hidden));
      out.start_logits = reshape(slice(both, 2, 0, 1), {batch.batch(), batch.length()});
      out.end_logits = reshape(slice(both, 2, 1, 2), {batch.batch(), batch.length()});
      break;
    }
    case Head::multiple_choice:
      out.logits = token_logits(logits_of(pooled(out, hidden, pass)));
      break;
    case Head::none: break;
  }
  return out;
}

Var Model::pool(const Var& hidden, const Ragged& batch, SentencePooling pooling) const {
  const auto means = [&](std::int64_t segments) { return token_means(hidden, batch, segments); };
  switch (pooling) {
    case SentencePooling::cls:
    case SentencePooling::lasttoken: return cast(hidden, accumulate_dtype(hidden.dtype()));
    case SentencePooling::mean: return mean(means(1), 1);
    case SentencePooling::landmarks: {
      // Segments without tokens are zeros and do not count.
      const std::int64_t landmarks = config_.attention.num_landmarks;
      return sum(means(landmarks), 1) * row_factors(batch, hidden, [&](std::int64_t count) {
               return 1.0 / static_cast<double>(std::min(count, landmarks));
             });
    }
    case SentencePooling::max: return largest_of_tokens(hidden, batch);
    case SentencePooling::mean_sqrt_len_tokens:
      return mean(means(1), 1) * row_factors(batch, hidden, [](std::int64_t count) {
               return std::sqrt(static_cast<double>(count));
             });
    case SentencePooling::weightedmean: return place_weighted_mean(hidden, batch);
  }
  return {};
}

Var Model::sentence_vectors(const ModelInput& input, SentencePooling pooling,
                            const RunContext& run) const {
  require(!config_.embed_dim, "sentence_vectors needs a model of token ids, got one of features");
  RunContext tokens_only = run;
  tokens_only.logits_only = true;
  const Pass pass(*this, input, tokens_only, Padding::left_out);
  const Var hidden = encoder_(pass.input, pass.batch, pass.run, read_by(pooling, pass.batch));
  Var vectors = pool(hidden, pass.batch, pooling);
  for (const auto& [layer, activation] : vector_layers_)
    vectors = activate(activation, layer.unrounded(cast(vectors, hidden.dtype())));
  return vectors;
}

Model::Pass Model::masked_lm_pass(const ModelInput& input, const RunContext& run) const {
  require(config_.head == Head::masked_lm,
          "masked_lm needs a model with the masked-LM head, got {}", enum_name(config_.head));
  return Pass(*this, input, run, Padding::left_out);
}

Var Model::masked_lm_logits(const ModelInput& input, const std::vector<std::int64_t>& elements,
                            const RunContext& run) const {
  const Pass pass = masked_lm_pass(input, run);
  return (*masked_lm_)(
      encoder_(pass.input, pass.batch, pass.run, pass.batch.positions_of(elements)));
}

namespace {

/// The elements of the labels that are not ignored, and their labels.
struct Targets {
  std::vector<std::int64_t> elements, labels;

  explicit Targets(const Tensor& all) {
    const Tensor host = all.to(cpu_device).contiguous();
    const auto* label = host.data<std::int64_t>();
    for (std::int64_t i = 0; i < host.numel(); ++i) {
      if (label[i] == ignore_index) continue;
      elements.push_back(i);
      labels.push_back(label[i]);
    }
  }
  Shape shape() const { return {std::ssize(labels)}; }
  Tensor tensor() const { return Tensor::from(labels, shape()); }
};

}  // namespace

MaskedLmOutput Model::masked_lm(const ModelInput& input, const Tensor& labels, double normaliser,
                                const RunContext& run) const {
  const Pass pass = masked_lm_pass(input, run);
  const Targets targets(labels);
  std::vector<std::int64_t> positions;
  if (sentence_order_) positions = first_positions(pass.batch);
  const auto firsts = static_cast<std::int64_t>(positions.size());
  std::ranges::copy(pass.batch.positions_of(targets.elements), std::back_inserter(positions));
  const Var hidden = encoder_(pass.input, pass.batch, pass.run, positions);
  const Var logits = (*masked_lm_)(slice(hidden, 0, firsts, hidden.dim(0)));
  const Device device = logits.value().device();
  MaskedLmOutput out{
      {}, Tensor::empty(targets.shape(), DType::i64, device), targets.tensor(), logits};
  out.loss = cross_entropy(logits, out.labels, normaliser, out.predictions, run.z_loss);
  if (sentence_order_) out.order_logits = sentence_order_->unrounded(slice(hidden, 0, 0, firsts));
  return out;
}

namespace {

/// One index for each row of logits [p, c], drawn from their softmax. Seed and step of `run`, and
/// the sample and the place in it of `positions` [p] in rows of `length`, decide the draws.
std::vector<std::int64_t> drawn(const Tensor& logits, const std::vector<std::int64_t>& positions,
                                std::int64_t length, const RunContext& run) {
  constexpr std::uint32_t site = ~0u;  // no dropout has this number
  const Tensor samples = run.sample_ids.to(cpu_device).contiguous();
  const PhiloxKey key = philox_key(run.seed, run.step);
  std::vector<double> uniform;
  for (const std::int64_t position : positions) {
    const auto sample = static_cast<std::uint64_t>(samples.data<std::int64_t>()[position / length]);
    const PhiloxBlock block = philox(
        key, {{static_cast<std::uint32_t>(position % length), static_cast<std::uint32_t>(sample),
               static_cast<std::uint32_t>(sample >> 32), site}});
    uniform.push_back(uniform_open(block.word[0]));
  }
  const Shape shape{logits.dim(0)};
  Tensor indices = Tensor::empty(shape, DType::i64, logits.device());
  kernels::sample_rows(logits, Tensor::from(uniform, shape).to(logits.device()), indices);
  const Tensor found = indices.to(cpu_device);
  return {found.data<std::int64_t>(), found.data<std::int64_t>() + found.numel()};
}

/// The input with `tokens` in the places of the targets.
ModelInput with_tokens(ModelInput input, const Targets& targets,
                       const std::vector<std::int64_t>& tokens) {
  input.input_ids = input.input_ids.to(cpu_device).contiguous().clone();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    input.input_ids.data<std::int64_t>()[targets.elements[i]] = tokens[i];
  return input;
}

/// 1 for the elements of `input` whose token in `tokens` is not its target, ignore_index for
/// padding, else 0.
Tensor replaced_elements(const ModelInput& input, const Targets& targets,
                         const std::vector<std::int64_t>& tokens) {
  Tensor result = Tensor::zeros(input.input_ids.shape(), DType::i64);
  auto* of_element = result.data<std::int64_t>();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    of_element[targets.elements[i]] = tokens[i] != targets.labels[i];
  if (!input.attention_mask.defined()) return result;
  const Tensor mask = input.attention_mask.contiguous();
  for (std::int64_t i = 0; i < mask.numel(); ++i)
    if (mask.data<std::uint8_t>()[i] == 0) of_element[i] = ignore_index;
  return result;
}

/// Counts what logits [r, 1] say of `truth` [r, 1].
void count_judgements(const Tensor& logits, const Tensor& truth, ReplacedTokensOutput& out) {
  const std::vector<double> found = logits.to(cpu_device).to_doubles(),
                            expected = truth.to_doubles();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (expected[i] == ignore_index) continue;
    const bool replaced = expected[i] == 1, taken_for_replaced = found[i] > 0;
    out.replaced += replaced;
    out.found += replaced && taken_for_replaced;
    out.right += replaced == taken_for_replaced;
  }
}

}  // namespace

ReplacedTokensOutput Model::replaced_tokens(const ModelInput& input, const Tensor& labels,
                                            const ReplacedTokensScale& scale,
                                            const RunContext& run) const {
  require(generator_.has_value(), "replaced_tokens needs a model with a generator, got {}",
          enum_name(config_.head));
  require(run.sample_ids.defined(), "replaced_tokens needs the ids of samples");
  RunContext context = run;
  context.gradients_final = {};  // both encoders change the gradients of the tables that they share
  const Targets targets(labels);
  ReplacedTokensOutput out;

  const Pass masked(*this, input, context, Padding::left_out);
  const std::vector<std::int64_t> positions = masked.batch.positions_of(targets.elements);
  RunContext unobserved = masked.run;
  unobserved.observe_attention = {};
  unobserved.observe_attention_output = {};
  const Var guesses =
      (*masked_lm_)((*generator_)(masked.input, masked.batch, unobserved, positions));
  Tensor largest = Tensor::empty(targets.shape(), DType::i64, guesses.value().device());
  const Var generator_loss =
      cross_entropy(guesses, targets.tensor(), scale.masked, largest, run.z_loss);
  const std::vector<double> argmax = largest.to(cpu_device).to_doubles();
  for (std::size_t i = 0; i < argmax.size(); ++i)
    out.guessed += static_cast<std::int64_t>(argmax[i]) == targets.labels[i];

  const std::vector<std::int64_t> tokens =
      drawn(guesses.value(), positions, masked.batch.length(), run);
  const Pass replaced(*this, with_tokens(input, targets, tokens), context, Padding::left_out);
  const Var judged =
      (*head_)(flat_rows(encoder_(replaced.input, replaced.batch, replaced.run)), replaced.run);
  const Tensor truth =
      replaced.batch.rows_of(replaced_elements(input, targets, tokens), ignore_index)
          .contiguous()
          .reshape(judged.shape());
  const Var discriminator_loss = multi_label_loss(judged, truth, scale.tokens);
  count_judgements(judged.value(), truth, out);

  out.loss = generator_loss + scale.weight * discriminator_loss;
  out.generator_loss = generator_loss.value();
  out.discriminator_loss = discriminator_loss.value();
  return out;
}

Var Model::masked_features(ModelInput input, const std::vector<std::int64_t>& rows,
                           const Tensor& targets, double normaliser, const RunContext& run) const {
  require(config_.head == Head::masked_features,
          "masked_features needs a model with the head of masked features, got {}",
          enum_name(config_.head));
  if (rows.empty()) {  // a step needs a gradient, of zeros
    const Tensor anything = Tensor::zeros({1, *config_.embed_dim}, DType::f64);
    return 0 * masked_features(std::move(input), {0}, anything, 1, run);
  }
  Pass pass(*this, std::move(input), run, Padding::left_out);
  std::vector<std::int64_t> positions = rows;
  if (config_.has_class_token()) {
    const std::vector<std::int64_t> all = behind_class_tokens(pass.batch);
    for (std::int64_t& row : positions) row = all[static_cast<std::size_t>(row)];
  } else {
    positions = pass.batch.positions_of(std::move(positions));
  }
  const Var said =
      (*head_)(encoder_(std::move(pass.input), pass.batch, pass.run, positions), pass.run);
  return mean_squared_error(said, targets) *
         (static_cast<double>(said.value().numel()) / normaliser);
}

}  // namespace nystrom
