#include "nn/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "core/base/printable.h"
#include "nn/layer_kinds.h"

namespace nystrom {

std::span<const EnumName<Activation>> enum_names(Activation) {
  static constexpr EnumName<Activation> names[] = {{Activation::gelu, "gelu"},
                                                   {Activation::gelu_new, "gelu_new"},
                                                   {Activation::silu, "silu"},
                                                   {Activation::relu, "relu"},
                                                   {Activation::tanh, "tanh"},
                                                   {Activation::linear, "linear"},
                                                   // Other names of the same functions.
                                                   {Activation::gelu, "gelu_python"},
                                                   {Activation::gelu_new, "gelu_pytorch_tanh"},
                                                   {Activation::gelu_new, "gelu_fast"},
                                                   {Activation::silu, "swish"}};
  return names;
}

std::span<const EnumName<Head>> enum_names(Head) {
  static constexpr EnumName<Head> names[] = {
      {Head::masked_lm, "NystromformerForMaskedLM"},
      {Head::replaced_tokens, "NystromformerForPreTraining"},
      {Head::masked_features, "NystromformerForMaskedFeatures"},
      {Head::sequence_classification, "NystromformerForSequenceClassification"},
      {Head::token_classification, "NystromformerForTokenClassification"},
      {Head::question_answering, "NystromformerForQuestionAnswering"},
      {Head::multiple_choice, "NystromformerForMultipleChoice"},
      {Head::none, "NystromformerModel"}};
  return names;
}

namespace {

/// A visitor that reports every option outside the range in its line of `fields`.
struct RangeCheck {
  std::string prefix;
  Problems& found;

  template <class T>
  void operator()(const T&, const char*, const char*) {}  // no range

  template <Section T>
  void operator()(T& section, const char* name, const char*) {
    RangeCheck inner{prefix + name + ".", found};
    fields(inner, section);
  }

  template <class T>
  void operator()(const T& value, const char* name, const char*, const Range& range) {
    if (range.contains(value)) return;
    constexpr bool whole = std::is_same_v<T, std::int64_t>;
    add_problem(found, {prefix + name}, "{}{} is {}; expected {}", prefix, name, value,
                describe(range, whole));
  }

  template <class T>
  void operator()(const std::optional<T>& value, const char* name, const char* help,
                  const Range& range) {
    if (value) (*this)(*value, name, help, range);
  }
};

/// Computed in floating point, so that absurd sizes cannot overflow.
double estimated_parameters(const ModelConfig& c) {
  const auto hidden = static_cast<double>(c.hidden_size);
  const auto inputs =
      c.embed_dim ? static_cast<double>(*c.embed_dim) : static_cast<double>(c.vocab_size);
  const double tables = static_cast<double>(c.max_position_embeddings) +
                        static_cast<double>(c.position_offset) +
                        static_cast<double>(c.type_vocab_size);
  double layer = hidden * (4 * hidden + 2 * static_cast<double>(c.intermediate_size) +
                           static_cast<double>(c.attention.conv_kernel_size.value_or(0)));
  if (c.has_kind(AttentionKind::linformer))
    layer += static_cast<double>(c.attention.projected_length) *
             static_cast<double>(c.max_position_embeddings);
  const auto width = static_cast<double>(c.embedding_size.value_or(c.hidden_size));
  double projections = c.embedding_size ? width * hidden : 0, last = hidden;
  const auto project = [&](std::int64_t to) {
    projections += last * static_cast<double>(to);
    last = static_cast<double>(to);
  };
  for (const DenseLayer& dense : c.embedding.dense) project(dense.width);
  if (c.embedding.projection) project(*c.embedding.projection);
  return width * (inputs + tables) + projections + static_cast<double>(c.num_hidden_layers) * layer;
}

void check_shapes(const ModelConfig& c, Problems& found) {
  if (c.hidden_size % c.num_attention_heads != 0)
    add_problem(found, {"hidden_size", "num_attention_heads"},
                "hidden_size {} is not divisible by num_attention_heads {}; each head takes an "
                "equal share of the width",
                c.hidden_size, c.num_attention_heads);
  if (!c.embed_dim && c.pad_token_id && (*c.pad_token_id < 0 || *c.pad_token_id >= c.vocab_size))
    add_problem(found, {"vocab_size"},
                "pad_token_id {} is outside the vocabulary; expected an id below vocab_size {}",
                *c.pad_token_id, c.vocab_size);
  if (!c.embed_dim && !c.pad_token_id &&
      (c.positions == Positions::skip_padding || c.attention.semantics == Semantics::transformers))
    add_problem(found, {"positions", "attention.semantics"},
                "pad_token_id is null, but positions skip_padding and attention.semantics "
                "transformers read padding; set it to the tokenizer's");
  constexpr double max_parameters = 1e13;
  const double parameters = estimated_parameters(c);
  if (parameters > max_parameters)
    add_problem(found, {"hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"},
                "hidden_size {}, intermediate_size {}, num_hidden_layers {}, vocab_size {}, the "
                "lengths of tables and the widths of projections make about {:.1e} parameters; "
                "expected at most {:.0e}: lower them",
                c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.vocab_size, parameters,
                max_parameters);
}

/// Both semantics support all inverses, landmark sources, norms and kinds. Only Hugging Face's
/// equal segments need a certain length.
void check_landmarks(const ModelConfig& c, Problems& found) {
  const AttentionConfig& attention = c.attention;
  const std::int64_t landmarks = attention.num_landmarks;
  if (!c.has_kind(AttentionKind::nystrom)) return;
  const bool transformers = attention.semantics == Semantics::transformers;
  if (transformers && c.exact_in_transformers())
    return;  // Hugging Face's exact case has no landmarks
  if (c.longest_sequence() && landmarks > c.max_position_embeddings)
    add_problem(found, {"attention.num_landmarks", "max_position_embeddings"},
                "attention.num_landmarks {} exceeds max_position_embeddings {}; no sequence is "
                "long enough to have them",
                landmarks, c.max_position_embeddings);
  if (!transformers) return;
  if (c.segment_means_seq_len < 1 || c.segment_means_seq_len % landmarks != 0)
    add_problem(found, {"attention.num_landmarks", "attention.semantics"},
                "attention.num_landmarks {} does not divide segment_means_seq_len {}, as "
                "attention.semantics transformers needs (Hugging Face refuses it too); change it "
                "or set attention.semantics to nystrom",
                landmarks, c.segment_means_seq_len);
  if (c.segment_means_seq_len > c.max_position_embeddings)
    add_problem(
        found, {"max_position_embeddings", "attention.semantics"},
        "max_position_embeddings {} is below segment_means_seq_len {}, the only length that "
        "attention.semantics transformers accepts; raise it or set attention.semantics to nystrom",
        c.max_position_embeddings, c.segment_means_seq_len);
}

/// Calls f(name) with the kinds of layers that are baselines.
template <class F>
void each_baseline(const ModelConfig& c, const F& f) {
  for (const auto& [kind, name] : enum_names(AttentionKind{})) {
    const bool by_scores = kind == AttentionKind::nystrom || kind == AttentionKind::softmax ||
                           kind == AttentionKind::none;
    if (!by_scores && c.has_kind(kind)) f(name);
  }
}

void check_baselines(const ModelConfig& c, Problems& found) {
  const AttentionConfig& attention = c.attention;
  each_baseline(c, [&](const char* name) {
    if (attention.semantics == Semantics::transformers)
      add_problem(found, {"attention.kind", "attention.layers", "attention.semantics"},
                  "attention.kind {} has no attention.semantics transformers, which Hugging Face "
                  "defines for nystrom and softmax alone; set attention.semantics to nystrom",
                  name);
  });
  if (c.has_kind(AttentionKind::linformer) &&
      attention.projected_length > c.max_position_embeddings)
    add_problem(found, {"attention.projected_length", "max_position_embeddings"},
                "attention.projected_length {} exceeds max_position_embeddings {}; linformer would "
                "make sequences longer",
                attention.projected_length, c.max_position_embeddings);
}

void check_rotation(const ModelConfig& c, Problems& found) {
  if (c.positions != Positions::rope) {
    for (const auto& [option, given] :
         {std::pair("rope_theta", c.rope_theta != ModelConfig{}.rope_theta),
          std::pair("local_rope_theta", c.local_rope_theta.has_value())})
      if (given)
        add_problem(found, {option, "positions"},
                    "{} is of positions: rope, and positions are {}; leave it out", option,
                    enum_name(c.positions));
    return;
  }
  if (c.hidden_size % c.num_attention_heads == 0 && c.head_dim() % 2 != 0)
    add_problem(found, {"positions", "hidden_size", "num_attention_heads"},
                "positions rope turn pairs of columns, but hidden_size {} over num_attention_heads "
                "{} makes heads of {}; expected an even width",
                c.hidden_size, c.num_attention_heads, c.head_dim());
  each_baseline(c, [&](const char* name) {
    add_problem(found, {"positions", "attention.kind", "attention.layers"},
                "positions rope rotate queries and keys, which attention.kind {} does not score; "
                "choose nystrom or softmax",
                name);
  });
  if (c.local_rope_theta && !c.has_window(AttentionKind::softmax) &&
      std::ranges::all_of(c.attention.window_layers, [](const std::string& text) {
        return parse_layer_range(text).has_value();
      }))
    add_problem(found, {"local_rope_theta", "attention.window"},
                "local_rope_theta is of layers of kind softmax with a window, of which there are "
                "none; set attention.window, and their kind in attention.layers, or leave it out");
}

void check_window(const ModelConfig& c, Problems& found) {
  const AttentionConfig& attention = c.attention;
  if (attention.semantics == Semantics::transformers && c.attends_by_distance())
    add_problem(
        found, {"attention.semantics", "attention.window", "positions"},
        "attention.semantics transformers has no window and no positions: rope; set it to nystrom");
  if (attention.window && !c.has_kind(AttentionKind::softmax) &&
      !c.has_kind(AttentionKind::nystrom))
    add_problem(found, {"attention.window", "attention.kind"},
                "attention.window {} is of layers of kind softmax or nystrom, and there are none; "
                "add them to attention.layers",
                *attention.window);
  for (const std::string& text : attention.window_layers) {
    const auto add = [&](const std::string& reason) {
      add_problem(found, {"attention.window_layers"}, "attention.window_layers '{}' {}",
                  printable(text, 40), reason);
    };
    const auto range = parse_layer_range(text);
    if (!range)
      add("names no layers; expected a layer or a range, such as 11 or 0-3");
    else if (range->last >= c.num_hidden_layers)
      add(fmt::format("exceeds num_hidden_layers {}, whose layers count from 0; lower it",
                      c.num_hidden_layers));
    else
      for (std::int64_t layer = range->first; layer <= range->last; ++layer)
        if (const AttentionKind kind = c.kind_of(layer);
            kind != AttentionKind::softmax && kind != AttentionKind::nystrom)
          return add(fmt::format("has layer {} of kind {}; a window is of kind softmax or nystrom",
                                 layer, enum_name(kind)));
  }
  if (!attention.window_layers.empty() && !attention.window)
    add_problem(
        found, {"attention.window_layers", "attention.window"},
        "attention.window_layers names layers of a window, and attention.window is null; set it");
}

void check_transform(const ModelConfig& c, Problems& found) {
  if (c.head_transform && c.has_towers())
    add_problem(found, {"head_transform", "pairs"},
                "head_transform reads one vector of hidden_size, and pairs: towers make four; set "
                "pairs to joined");
}

/// Poolings of features, and layers that mix no rows.
void check_bags(const ModelConfig& c, Problems& found) {
  const bool pooled = c.pooling == Pooling::token || c.pooling == Pooling::attention;
  if (pooled && !c.embed_dim)
    add_problem(found, {"pooling", "embed_dim"},
                "pooling {} is for features (embed_dim); set it to first or mean",
                enum_name(c.pooling));
  if (pooled && c.attention.semantics == Semantics::transformers)
    add_problem(
        found, {"pooling", "attention.semantics"},
        "pooling {} has no attention.semantics transformers; set attention.semantics to nystrom",
        enum_name(c.pooling));
  if (c.pooling == Pooling::token && c.num_hidden_layers == 0)
    add_problem(found, {"pooling", "num_hidden_layers"},
                "pooling is token, but there are no layers through which it sees the features; set "
                "num_hidden_layers to at least 1, or pooling to attention");
  if (!c.has_kind(AttentionKind::none)) return;
  if (!c.embed_dim)
    add_problem(found, {"attention.kind", "attention.layers", "embed_dim"},
                "attention.kind none is for features (embed_dim); choose another kind");
  if (c.has_only(AttentionKind::none) && c.head == Head::sequence_classification &&
      (c.pooling == Pooling::first || c.pooling == Pooling::token))
    add_problem(found, {"attention.kind", "pooling"},
                "attention.kind is none, so that pooling {} reads one row alone; set pooling to "
                "attention or mean",
                enum_name(c.pooling));
}

void check_masked_features(const ModelConfig& c, Problems& found) {
  if (c.head != Head::masked_features) return;
  if (!c.embed_dim)
    add_problem(found, {"embed_dim"}, "embed_dim is null, and the head {} says features",
                enum_name(c.head));
  constexpr const char* known = "a masked row is known from the other rows alone";
  if (c.num_hidden_layers == 0)
    add_problem(found, {"num_hidden_layers"},
                "num_hidden_layers is 0, and {}; set it to at least 1", known);
  else if (c.has_only(AttentionKind::none))
    add_problem(found, {"attention.kind"}, "attention.kind is none, and {}; choose another kind",
                known);
}

bool needs_token_ids(Head head) {
  return head == Head::masked_lm || head == Head::replaced_tokens ||
         head == Head::question_answering || head == Head::multiple_choice;
}

void check_input_and_head(const ModelConfig& c, Problems& found) {
  if (!c.first_attention_norm && c.norm != Norm::pre)
    add_problem(found, {"first_attention_norm", "norm"},
                "first_attention_norm is false, but norm is post, which normalises behind each "
                "attention; set norm to pre, or leave it out");
  if (c.embed_dim && c.norm == Norm::post)
    add_problem(found, {"embed_dim", "norm"},
                "embed_dim {} needs norm: pre; input features belong to the sequence block, and "
                "norm: post takes token ids",
                *c.embed_dim);
  if (c.embed_dim && needs_token_ids(c.head))
    add_problem(found, {"embed_dim"},
                "embed_dim {} makes the input features, but the head {} needs token ids; leave "
                "embed_dim out or choose another head",
                *c.embed_dim, enum_name(c.head));
  if (c.embed_dim && c.has_position_table())
    add_problem(found, {"positions", "embed_dim"},
                "positions are {}, but input features (embed_dim) have no position embeddings; set "
                "positions to none or rope",
                enum_name(c.positions));
  if (c.embed_dim && c.embedding_size)
    add_problem(found, {"embedding_size", "embed_dim"},
                "embedding_size {} is the width of token embeddings, but the input is features "
                "(embed_dim); leave one of them out",
                *c.embedding_size);
  if (c.positions == Positions::skip_padding && c.position_offset < 1)
    add_problem(found, {"positions", "position_offset"},
                "positions are skip_padding, where padding reads the row before the first "
                "position; set position_offset to at least 1");
  if (c.embed_dim && c.pairs == Pairs::towers)
    add_problem(found, {"pairs", "embed_dim"},
                "pairs are towers, but input features (embed_dim) come one sequence a sample; set "
                "pairs to joined");
  const bool labelled =
      c.head == Head::sequence_classification || c.head == Head::token_classification;
  if (labelled && c.labels.empty())
    add_problem(found, {}, "labels are empty; the head {} needs at least one", enum_name(c.head));
}

void check_depth(const ModelConfig& c, Problems& found) {
  if (c.num_hidden_layers > max_layers)
    add_problem(found, {"num_hidden_layers"}, "num_hidden_layers is {}; expected at most {}",
                c.num_hidden_layers, max_layers);
  constexpr std::size_t most_names = 256;  // each layer is looked for in all of them
  const auto check_names = [&](const char* option, std::size_t names) {
    if (std::cmp_greater(names, c.num_hidden_layers))
      add_problem(found, {option}, "{} has {} names for {} layers; name each layer once", option,
                  names, c.num_hidden_layers);
    else if (names > most_names)
      add_problem(found, {option},
                  "{} has {} names; expected at most {}: name neighbours as a range", option, names,
                  most_names);
  };
  check_names("attention.layers", c.attention.layers.size());
  check_names("attention.window_layers", c.attention.window_layers.size());
}

}  // namespace

ModelConfig generator_of(const ModelConfig& config) {
  const auto quarter = [](std::int64_t number) { return std::max<std::int64_t>(1, number / 4); };
  const GeneratorConfig& given = *config.generator;
  ModelConfig own = config;
  own.head = Head::masked_lm;
  own.generator.reset();
  own.embedding = {};
  own.embedding_size = config.embedding_width();
  own.hidden_size = given.hidden_size.value_or(quarter(config.hidden_size));
  own.intermediate_size = given.intermediate_size.value_or(quarter(config.intermediate_size));
  own.num_attention_heads = quarter(config.num_attention_heads);
  while (own.hidden_size % own.num_attention_heads != 0) --own.num_attention_heads;
  if (given.num_attention_heads) own.num_attention_heads = *given.num_attention_heads;
  return own;
}

Problems problems(const ModelConfig& config) {
  Problems found;
  ModelConfig copy = config;  // field lists take a mutable struct
  RangeCheck ranges{"", found};
  fields(ranges, copy);
  if (found.empty()) check_depth(config, found);
  if (!found.empty()) return found;  // the rules below divide by these numbers, or visit each layer
  std::ranges::move(layer_problems(config), std::back_inserter(found));
  check_shapes(config, found);
  check_landmarks(config, found);
  check_baselines(config, found);
  check_rotation(config, found);
  check_transform(config, found);
  check_window(config, found);
  check_input_and_head(config, found);
  check_bags(config, found);
  check_masked_features(config, found);
  return found;
}

}  // namespace nystrom
