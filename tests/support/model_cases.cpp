#include "tests/support/model_cases.h"

namespace nystrom::testing {
namespace {

/// Rows with holes, with two tokens, with as many tokens as landmarks, without tokens, and with one
/// token more than landmarks. With transformers' semantics the gradient of an empty row is not the
/// derivative, by definition (see EmptyRows). fixtures/hf checks it.
const std::vector<std::string> mixed = {"11011110", "11000000", "01010100", "00000000", "10101010"};
const std::vector<std::string> full = {"1111111", "1111111"};
/// Every row has a first token, as some heads need.
const std::vector<std::string> padded = {"1111100", "1111111"};

using C = ModelConfig;

void transformers(C& c) { c.attention.semantics = Semantics::transformers; }
void identity(C& c) { c.attention.inverse = Inverse::identity; }
void exact(C& c) { c.attention.inverse = Inverse::exact; }
void iterations(C& c, std::int64_t count) { c.attention.inverse_iterations = count; }
void keys(C& c) { c.attention.landmark_source = LandmarkSource::keys; }
void softmax_kind(C& c) { c.attention.kind = AttentionKind::softmax; }
void no_conv(C& c) { c.attention.conv_kernel_size.reset(); }
void conv_33(C& c) { c.attention.conv_kernel_size = 33; }

void towers(C& c) {
  c.head = Head::sequence_classification;
  c.pairs = Pairs::towers;
  c.pooling = Pooling::mean;
}

void baseline(C& c, AttentionKind kind) {
  c.attention.kind = kind;
  c.attention.num_features = 5;
  c.attention.projected_length = 4;
  c.attention.bucket_size = 2;
}

}  // namespace

ModelConfig ModelCase::config() const {
  ModelConfig config = tiny_config();
  change(config);
  return config;
}

RunContext ModelCase::run() const {
  std::vector<std::int64_t> samples(rows.size());
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::int64_t>(7 * i);
  return {mode == Mode::dropout, mode == Mode::checkpointed, 3, 4,
          int_tensor(samples, {std::ssize(samples)})};
}

std::vector<ModelCase> model_cases() {
  return {
      {"defaults", [](C&) {}, mixed},
      {"no_padding", [](C&) {}, full},
      {"holes", [](C&) {}},
      {"iterations_0", [](C& c) { iterations(c, 0); }},
      {"iterations_1", [](C& c) { iterations(c, 1); }},
      {"exact_inverse", [](C& c) { exact(c); }, holes, Mode::plain, 1e-5},
      {"identity_inverse", [](C& c) { identity(c); }},
      {"keys", [](C& c) { keys(c); }, mixed},
      {"keys_iterations_0", [](C& c) { keys(c), iterations(c, 0); }},
      {"keys_iterations_1", [](C& c) { keys(c), iterations(c, 1); }},
      {"keys_exact_inverse", [](C& c) { keys(c), exact(c); }, holes, Mode::plain, 1e-5},
      {"keys_identity_inverse", [](C& c) { keys(c), identity(c); }},
      {"no_conv", [](C& c) { no_conv(c); }},
      {"conv_33", [](C& c) { conv_33(c); }},
      {"softmax", [](C& c) { softmax_kind(c); }, mixed},
      {"softmax_no_conv", [](C& c) { softmax_kind(c), no_conv(c); }},
      {"double_softmax", [](C& c) { baseline(c, AttentionKind::double_softmax); }, mixed},
      {"linear", [](C& c) { baseline(c, AttentionKind::linear); }, mixed},
      {"performer", [](C& c) { baseline(c, AttentionKind::performer); }, mixed},
      {"linformer", [](C& c) { baseline(c, AttentionKind::linformer); }, mixed},
      {"linformer_per_head",
       [](C& c) {
         baseline(c, AttentionKind::linformer),
             c.attention.projection_sharing = ProjectionSharing::per_head;
       },
       mixed},
      {"reformer", [](C& c) { baseline(c, AttentionKind::reformer); }, mixed},
      {"reformer_one_round_no_conv",
       [](C& c) { baseline(c, AttentionKind::reformer), c.attention.num_hashes = 1, no_conv(c); },
       mixed},
      {"performer_pre_norm",
       [](C& c) { baseline(c, AttentionKind::performer), c.norm = Norm::pre; }, full},
      {"window", [](C& c) { softmax_kind(c), c.attention.window = 2; }, padded},
      {"window_beside_landmarks", [](C& c) { c.attention.window = 2; }, padded},
      {"window_beside_landmarks_of_rope",
       [](C& c) { c.attention.window = 2, c.positions = Positions::rope, c.hidden_size = 8; },
       padded},
      {"landmarks_of_rope", [](C& c) { c.positions = Positions::rope, c.hidden_size = 8; }, padded},
      {"one_landmark", [](C& c) { c.attention.num_landmarks = 1; }},
      {"one_head", [](C& c) { c.num_attention_heads = 1; }},
      {"pre_norm", [](C& c) { c.norm = Norm::pre; }, mixed},
      {"pre_norm_softmax", [](C& c) { c.norm = Norm::pre, softmax_kind(c); }},
      {"no_positions", [](C& c) { c.positions = Positions::none; }, mixed},
      {"positions_skip_padding", [](C& c) { c.positions = Positions::skip_padding; }, mixed},
      {"first_position_row", [](C& c) { c.position_offset = 0; }, mixed},
      {"no_token_types", [](C& c) { c.type_vocab_size = 0; }, mixed},
      {"narrow_embeddings",
       [](C& c) { c.embedding_size = 5, c.head = Head::masked_lm, softmax_kind(c); }, padded},
      {"tanh_classifier",
       [](C& c) { c.classifier_act = Activation::tanh, c.head = Head::sequence_classification; },
       padded},
      {"gelu", [](C& c) { c.hidden_act = Activation::gelu; }},
      {"relu", [](C& c) { c.hidden_act = Activation::relu; }},
      {"transformers", [](C& c) { transformers(c); }},
      {"transformers_no_padding", [](C& c) { transformers(c); }, {"111111111", "111111111"}},
      {"transformers_short_row", [](C& c) { transformers(c); }, {"111011000", "100000000"}},
      {"transformers_conv_33", [](C& c) { transformers(c), conv_33(c); }},
      {"transformers_no_conv", [](C& c) { transformers(c), no_conv(c); }},
      {"transformers_iterations_0", [](C& c) { transformers(c), iterations(c, 0); }},
      {"transformers_iterations_1", [](C& c) { transformers(c), iterations(c, 1); }},
      {"transformers_exact_inverse", [](C& c) { transformers(c), exact(c); }, holes, Mode::plain,
       1e-5},
      {"transformers_identity_inverse", [](C& c) { transformers(c), identity(c); }},
      {"transformers_keys", [](C& c) { transformers(c), keys(c); }},
      {"transformers_pre_norm", [](C& c) { transformers(c), c.norm = Norm::pre; }},
      {"transformers_softmax", [](C& c) { transformers(c), softmax_kind(c); }},
      {"transformers_exact_case",
       [](C& c) { transformers(c), c.segment_means_seq_len = c.attention.num_landmarks; }},
      {"sequence_block", make_sequence_block, mixed},
      {"sequence_block_queries_and_keys",
       [](C& c) {
         make_sequence_block(c), c.attention.landmark_source = LandmarkSource::queries_and_keys;
       }},
      {"sequence_block_conv",
       [](C& c) { make_sequence_block(c), c.attention.conv_kernel_size = 3; }},
      {"sequence_block_softmax", [](C& c) { make_sequence_block(c), softmax_kind(c); }},
      {"sequence_block_checkpointed", make_sequence_block, holes, Mode::checkpointed},
      {"checkpointed", [](C&) {}, mixed, Mode::checkpointed},
      {"dropout", [](C&) {}, mixed, Mode::dropout},
      {"masked_lm", [](C& c) { c.head = Head::masked_lm; }, padded},
      {"replaced_tokens", [](C& c) { c.head = Head::replaced_tokens; }, padded},
      {"sequence_classification", [](C& c) { c.head = Head::sequence_classification; }, padded},
      {"mean_pooling",
       [](C& c) { c.head = Head::sequence_classification, c.pooling = Pooling::mean; }, mixed},
      {"mean_pooling_of_features",
       [](C& c) {
         make_sequence_block(c), c.head = Head::sequence_classification, c.pooling = Pooling::mean;
       },
       mixed},
      {"towers", [](C& c) { towers(c); }, {"11011110", "11000000", "01010100", "00000000"}},
      {"towers_first_token", [](C& c) { towers(c), c.pooling = Pooling::first; }, padded},
      {"towers_dropout",
       [](C& c) { towers(c); },
       {"11011110", "11000000", "01010100", "00000000"},
       Mode::dropout},
      {"token_classification", [](C& c) { c.head = Head::token_classification; }, padded},
      {"question_answering", [](C& c) { c.head = Head::question_answering; }, padded},
      {"multiple_choice", [](C& c) { c.head = Head::multiple_choice; }, padded},
  };
}

/// A loss of all specified outputs. Outputs at padded positions are excluded.
Var loss_of(const Model& model, const Layout& layout, const ModelInput& input,
            const RunContext& run) {
  const ModelOutput out = model(input, run);
  // With transformers' semantics padded positions are specified: they reach the landmarks of the
  // next layer.
  const bool everywhere = model.config().attention.semantics == Semantics::transformers;
  const Tensor places = token_places(
      everywhere ? Layout{std::vector(layout.rows.size(), std::string(layout.rows[0].size(), '1'))}
                 : layout);
  const auto by_position = [&](const Var& x) { return weighted_sum(at_places(x, places)); };
  const auto column = [](const Var& x) { return reshape(x, {x.dim(0), x.dim(1), 1}); };
  Var loss = model.config().has_class_token() ? weighted_sum(out.last_hidden_state)
                                              : by_position(out.last_hidden_state);
  if (model.config().head == Head::replaced_tokens)
    loss = loss + by_position(column(out.logits));
  else if (out.logits.defined())
    loss = loss + (out.logits.rank() == 3 ? by_position(out.logits) : weighted_sum(out.logits));
  if (out.start_logits.defined())
    loss = loss + (by_position(column(out.start_logits)) + 2 * by_position(column(out.end_logits)));
  if (out.output.defined()) loss = loss + weighted_sum(out.output);
  return loss;
}

}  // namespace nystrom::testing
