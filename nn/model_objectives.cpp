// The losses that a model is pretrained by.
#include <algorithm>

#include "core/check.h"
#include "nn/model_pass.h"
#include "nn/pooling.h"

namespace nystrom {

Model::Pass Model::masked_lm_pass(const ModelInput& input, const RunContext& run) const {
  require(config_.head == Head::masked_lm,
          "masked_lm needs a model with the masked-LM head, got {}", enum_name(config_.head));
  return Pass(*this, input, run, Padding::left_out);
}

Var Model::masked_lm_logits(const ModelInput& input, const std::vector<std::int64_t>& elements,
                            const RunContext& run) const {
  const Pass pass = masked_lm_pass(input, run);
  return (*masked_lm_)(encoder_(pass.input, pass.batch, pass.run, pass.batch.rows_of(elements)));
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
  std::vector<std::int64_t> rows;
  if (sentence_order_) rows = first_rows(pass.batch);
  const auto firsts = std::ssize(rows);
  std::ranges::copy(pass.batch.rows_of(targets.elements), std::back_inserter(rows));
  const Var hidden = encoder_(pass.input, pass.batch, pass.run, rows);
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
/// the samples and places of `rows` [p] of the batch, decide the draws.
std::vector<std::int64_t> drawn(const Tensor& logits, const std::vector<std::int64_t>& rows,
                                const Ragged& batch, const RunContext& run) {
  constexpr std::uint32_t site = ~0u;  // no dropout has this number
  const Tensor samples = run.sample_ids.to(cpu_device).contiguous();
  const PhiloxKey key = philox_key(run.seed, run.step);
  std::vector<double> uniform;
  for (const std::int64_t row : rows) {
    const Ragged::Place place = batch.place_of(row);
    const auto sample = static_cast<std::uint64_t>(samples.data<std::int64_t>()[place.sequence]);
    const PhiloxBlock block = philox(
        key, {{static_cast<std::uint32_t>(place.position), static_cast<std::uint32_t>(sample),
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
  const std::vector<double> found = logits.to_doubles(), expected = truth.to_doubles();
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
  const std::vector<std::int64_t> rows = masked.batch.rows_of(targets.elements);
  RunContext unobserved = masked.run;
  unobserved.observe_attention = {};
  unobserved.observe_attention_output = {};
  const Var guesses = (*masked_lm_)((*generator_)(masked.input, masked.batch, unobserved, rows));
  Tensor largest = Tensor::empty(targets.shape(), DType::i64, guesses.value().device());
  const Var generator_loss =
      cross_entropy(guesses, targets.tensor(), scale.masked, largest, run.z_loss);
  const std::vector<double> argmax = largest.to_doubles();
  for (std::size_t i = 0; i < argmax.size(); ++i)
    out.guessed += static_cast<std::int64_t>(argmax[i]) == targets.labels[i];

  std::vector<std::int64_t> tokens = drawn(guesses.value(), rows, masked.batch, run);
  // Padding within a text would move the positions behind it that skip padding: the token stays.
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] == config_.pad_token_id) tokens[i] = targets.labels[i];
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
  require(!rows.empty(), "masked_features needs a masked row");
  Pass pass(*this, std::move(input), run, Padding::left_out);
  std::vector<std::int64_t> read = rows;
  if (config_.has_class_token()) {
    const std::vector<std::int64_t> all = behind_class_tokens(pass.batch);
    for (std::int64_t& row : read) row = all[static_cast<std::size_t>(row)];
  } else {
    read = pass.batch.rows_of(std::move(read));
  }
  const Var said = (*head_)(encoder_(std::move(pass.input), pass.batch, pass.run, read), pass.run);
  return mean_squared_error(said, targets) *
         (static_cast<double>(said.value().numel()) / normaliser);
}

}  // namespace nystrom
