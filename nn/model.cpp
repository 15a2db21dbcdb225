#include "nn/model.h"

#include <algorithm>

#include "core/check.h"
#include "nn/model_pass.h"
#include "nn/nystrom.h"
#include "nn/pooling.h"

namespace nystrom {
namespace {

const ModelConfig& checked(const ModelConfig& config) {
  require_none("the model cannot be built", problems(config));
  if (config.generator)
    require_none("the generator cannot be built", problems(generator_of(config)));
  return config;
}

/// Logits […, 1] of tokens as […].
Var token_logits(const Var& logits) { return reshape(logits, logits.shape().without(-1)); }

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
  if (config_.head == Head::sequence_classification && config_.pooling == Pooling::attention)
    gated_.emplace(root / "pooling", config_);
  head_ = make_head(root, config_);
  const Embeddings& embeddings = encoder_.embeddings();
  if (config_.head == Head::masked_lm)
    masked_lm_.emplace(root / "cls" / "predictions", config_, embeddings.words());
  if (config_.head == Head::replaced_tokens && config_.generator) {
    const ModelConfig generator = generator_of(config_);
    const Scope scope = root / "generator" / "nystromformer";
    generator_.emplace(scope, generator, Embeddings(scope / "embeddings", generator, embeddings));
    masked_lm_.emplace(root / "generator" / "cls" / "predictions", generator, embeddings.words());
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

Ragged Model::batch_of(const ModelInput& input, Padding padding) const {
  const Tensor& positions = config_.embed_dim ? input.features : input.input_ids;
  require(positions.defined(), "the model got no {}", config_.embed_dim ? "features" : "input_ids");
  if (config_.has_class_token()) return batch_with_class_token(input);
  if (!input.offsets.empty()) {
    require(input.offsets.back() == positions.dim(0), "the offsets end at row {}, expected {}",
            input.offsets.back(), positions.dim(0));
    // Without a length that all must have, a sequence gives what it gives alone.
    return {input.offsets, store_.values().device(), config_.fixed_length()};
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
  std::vector<std::int64_t> offsets = input.element_offsets();
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] += static_cast<std::int64_t>(i);
  return {offsets, store_.values().device()};
}

Var Model::last_valid_step(const Var& hidden, const Ragged& batch) const {
  const std::vector<std::int64_t> counts = batch.counts();
  const Var last = rows_at(hidden, last_tokens(batch));
  if (std::ranges::none_of(counts, [](std::int64_t count) { return count == 0; })) return last;
  std::vector<std::int64_t> rows;  // zeros without a token
  for (std::int64_t i = 0; i < batch.batch(); ++i)
    rows.push_back(counts[static_cast<std::size_t>(i)] == 0 ? -1 : i);
  return gather_rows(last, index_of(rows));
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
  return rows_at(hidden, first_rows(pass.batch));
}

ModelOutput Model::operator()(ModelInput input, const RunContext& run) const {
  Pass pass(*this, std::move(input), run, run.logits_only ? Padding::left_out : Padding::attends);
  const bool first_only = run.logits_only && reads_first_token();
  const bool padded = pass.input.offsets.empty();
  const Var hidden = encoder_(std::move(pass.input), pass.batch, pass.run,
                              first_only ? ChosenRows(first_rows(pass.batch)) : std::nullopt);
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
      const Var said = logits_of(rows_at(hidden, behind_class_tokens(batch)));
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

Var Model::sentence_vectors(const ModelInput& input, SentencePooling pooling,
                            const RunContext& run) const {
  require(!config_.embed_dim, "sentence_vectors needs a model of token ids, got one of features");
  RunContext tokens_only = run;
  tokens_only.logits_only = true;
  const Pass pass(*this, input, tokens_only, Padding::left_out);
  const Var hidden = encoder_(pass.input, pass.batch, pass.run, read_by(pooling, pass.batch));
  Var vectors = pool(hidden, pass.batch, pooling, config_.attention.num_landmarks);
  for (const auto& [layer, activation] : vector_layers_)
    vectors = activate(activation, layer.unrounded(cast(vectors, hidden.dtype())));
  return vectors;
}

}  // namespace nystrom
