#include "train/state/architecture.h"

#include <algorithm>
#include <array>

namespace nystrom {
namespace {

using Key = Architecture::Key;
using Rename = Architecture::Rename;

constexpr std::string_view encoder = ".nystromformer.";

/// Parts of names, after renaming, of weights that no model here reads.
constexpr std::string_view unread[] = {".nystromformer.pooler.", ".cls.seq_relationship."};
/// Parts of names of tensors without information: numbers from 0.
constexpr std::string_view redundant[] = {".position_ids.", ".token_type_ids."};

/// First names of encoder tensors. Files of a bare encoder have them without the prefix.
constexpr std::string_view encoder_parts[] = {
    "embeddings.", "encoder.",    "transformer.",       "pooler.",
    "layers.",     "final_norm.", "embeddings_project."};

/// The parts of joint projections.
constexpr std::string_view projections[] = {".query.", ".key.", ".value."};

// A later line applies to the result of the earlier ones. The inverse goes upwards.
constexpr Rename bert_names[] = {
    {".classifier.", ".classifier.out_proj.", Head::sequence_classification},
    {".nystromformer.pooler.dense.", ".classifier.dense.", Head::sequence_classification},
    {".nystromformer.pooler.dense.", ".pre_classifier.", Head::multiple_choice},
};

constexpr Rename roberta_names[] = {
    {".lm_head.dense.", ".cls.predictions.transform.dense."},
    {".lm_head.layer_norm.", ".cls.predictions.transform.LayerNorm."},
    {".lm_head.decoder.weight.", ".cls.predictions.decoder.weight."},
    {".lm_head.bias.", ".cls.predictions.bias."},
    {".nystromformer.pooler.dense.", ".pre_classifier.", Head::multiple_choice},
};

constexpr Rename distilbert_names[] = {
    {".transformer.layer.", ".encoder.layer."},
    {".ffn.lin1.", ".intermediate.dense."},
    {".ffn.lin2.", ".output.dense."},
    {".output_layer_norm.", ".output.LayerNorm."},
    {".attention.q_lin.", ".attention.self.query."},
    {".attention.k_lin.", ".attention.self.key."},
    {".attention.v_lin.", ".attention.self.value."},
    {".attention.out_lin.", ".attention.output.dense."},
    {".sa_layer_norm.", ".attention.output.LayerNorm."},
    {".vocab_transform.", ".cls.predictions.transform.dense."},
    {".vocab_layer_norm.", ".cls.predictions.transform.LayerNorm."},
    {".vocab_projector.bias.", ".cls.predictions.bias."},
    {".vocab_projector.weight.", ".cls.predictions.decoder.weight."},
    {".classifier.", ".classifier.out_proj.", Head::sequence_classification},
    {".pre_classifier.", ".classifier.dense.", Head::sequence_classification},
};

constexpr Rename electra_names[] = {
    {".nystromformer.embeddings_project.", ".nystromformer.embeddings.projection."},
    {".generator_predictions.dense.", ".cls.predictions.transform.dense."},
    {".generator_predictions.LayerNorm.", ".cls.predictions.transform.LayerNorm."},
    {".generator_lm_head.bias.", ".cls.predictions.bias."},
    {".generator_lm_head.weight.", ".cls.predictions.decoder.weight."},
    {".sequence_summary.summary.", ".pre_classifier.", Head::multiple_choice},
};

constexpr Rename modernbert_names[] = {
    {".layers.", ".encoder.layer."},
    {".tok_embeddings.", ".word_embeddings."},
    {".embeddings.norm.", ".embeddings.LayerNorm."},
    {".mlp_norm.", ".output.LayerNorm."},
    {".attn_norm.", ".attention.output.LayerNorm."},
    {".mlp.Wi.", ".intermediate.dense."},
    {".mlp.Wo.", ".output.dense."},
    {".attn.Wo.", ".attention.output.dense."},
    {".attn.Wqkv.", ".attention.self.query."},
    {".attn.Wqkv.", ".attention.self.key."},
    {".attn.Wqkv.", ".attention.self.value."},
    {".head.dense.", ".transform.dense."},
    {".head.norm.", ".transform.LayerNorm."},
    {".transform.dense.", ".cls.predictions.transform.dense.", Head::masked_lm},
    {".transform.LayerNorm.", ".cls.predictions.transform.LayerNorm.", Head::masked_lm},
    {".decoder.weight.", ".cls.predictions.decoder.weight."},
    {".decoder.bias.", ".cls.predictions.bias."},
    {".classifier.", ".classifier.out_proj.", Head::sequence_classification},
    {".classifier.", ".qa_outputs.", Head::question_answering},
};

constexpr Key modernbert_keys[] = {
    {"hidden_act", "hidden_activation"},
    {"layer_norm_eps", "norm_eps"},
    {"type_vocab_size", ""},
    {"hidden_dropout_prob", ""},
};

constexpr Key distilbert_keys[] = {
    {"hidden_size", "dim"},
    {"num_hidden_layers", "n_layers"},
    {"num_attention_heads", "n_heads"},
    {"intermediate_size", "hidden_dim"},
    {"hidden_act", "activation"},
    {"hidden_dropout_prob", "dropout"},
    {"layer_norm_eps", ""},
    {"type_vocab_size", ""},
};

ModelConfig bert() {
  ModelConfig c;
  c.vocab_size = 30522;
  c.hidden_act = Activation::gelu;
  c.layer_norm_eps = 1e-12;
  c.position_offset = 0;
  c.pad_token_id = 0;
  c.classifier_act = Activation::tanh;
  c.attention.kind = AttentionKind::softmax;
  c.attention.conv_kernel_size = std::nullopt;
  return c;
}

ModelConfig roberta(std::int64_t vocab_size) {
  ModelConfig c = bert();
  c.vocab_size = vocab_size;
  c.positions = Positions::skip_padding;
  c.pad_token_id = 1;
  c.transform_act = Activation::gelu;
  return c;
}

ModelConfig distilbert() {
  ModelConfig c = bert();
  c.num_hidden_layers = 6;
  c.type_vocab_size = 0;
  c.classifier_act = Activation::relu;
  return c;
}

ModelConfig electra() {
  ModelConfig c = bert();
  c.hidden_size = 256;
  c.num_attention_heads = 4;
  c.intermediate_size = 1024;
  c.embedding_size = 128;
  c.transform_act = c.classifier_act = Activation::gelu;
  return c;
}

ModelConfig modernbert() {
  ModelConfig c = bert();
  c.vocab_size = 50368;
  c.num_hidden_layers = 22;
  c.intermediate_size = 1152;
  c.max_position_embeddings = 8192;
  c.type_vocab_size = 0;
  c.hidden_dropout_prob = 0;
  c.layer_norm_eps = 1e-5;
  c.norm = Norm::pre;
  c.final_norm = true;
  c.first_attention_norm = false;
  c.mlp = Mlp::geglu;
  c.bias = false;
  c.positions = Positions::rope;
  c.rope_theta = 160000;
  c.local_rope_theta = 10000;
  c.attention.window = 128;
  c.transform_act = Activation::gelu;
  c.classifier_act = std::nullopt;
  c.head_transform = true;
  c.pad_token_id = 50283;
  return c;
}

/// The name without dots at both ends.
std::string without_dots(std::string_view dotted) {
  return std::string(dotted.substr(1, dotted.size() - 2));
}

bool replace(std::string& name, std::string_view from, std::string_view to) {
  const std::size_t place = name.find(from);
  if (place == name.npos) return false;
  name.replace(place, from.size(), to);
  return true;
}

bool contains_any(const std::string& name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](auto part) { return name.find(part) != name.npos; });
}

bool applies(const Rename& rename, Head head) { return !rename.head || *rename.head == head; }

}  // namespace

std::span<const Architecture> architectures() {
  static const std::array<Architecture, 7> all = {{
      {"bert", "Bert", "bert", bert(), {}, bert_names, Head::masked_lm},
      {"camembert", "Camembert", "roberta", roberta(30522), {}, roberta_names},
      {"distilbert", "DistilBert", "distilbert", distilbert(), distilbert_keys, distilbert_names},
      {"electra", "Electra", "electra", electra(), {}, electra_names, Head::replaced_tokens},
      {"modernbert", "ModernBert", "model", modernbert(), modernbert_keys, modernbert_names,
       std::nullopt, true},
      {"roberta", "Roberta", "roberta", roberta(50265), {}, roberta_names},
      {"xlm-roberta", "XLMRoberta", "roberta", roberta(30522), {}, roberta_names},
  }};
  return all;
}

const Architecture* find_architecture(std::string_view model_type) {
  const auto all = architectures();
  const auto found = std::ranges::find(all, model_type, &Architecture::model_type);
  return found == all.end() ? nullptr : &*found;
}

bool Architecture::is_of_encoder(std::string_view tensor) const {
  return tensor.starts_with(std::string(base) + ".") ||
         std::ranges::any_of(encoder_parts, [&](auto part) { return tensor.starts_with(part); });
}

std::optional<std::string> Architecture::parameter_name(std::string_view tensor, Head head) const {
  std::string name = "." + std::string(tensor) + ".";
  replace(name, ".gamma.", ".weight.");
  replace(name, ".beta.", ".bias.");
  if (name != ".decoder.bias.") replace(name, ".decoder.bias.", ".bias.");  // a copy
  const bool inside = is_of_encoder(tensor);
  if (inside && !replace(name, "." + std::string(base) + ".", encoder))
    name = std::string(encoder) + name.substr(1);
  if (!inside && head == Head::none) return std::nullopt;
  for (const Rename& rename : renames)
    if (applies(rename, head)) replace(name, rename.theirs, rename.ours);
  if (contains_any(name, unread) || contains_any(name, redundant)) return std::nullopt;
  return without_dots(name);
}

std::vector<std::string> Architecture::parts_of(const std::string& parameter) const {
  const std::size_t place = parameter.find(std::string(projections[0]));
  if (!joint_projections || place == parameter.npos) return {parameter};
  std::vector<std::string> parts;
  for (const std::string_view part : projections)
    parts.push_back(std::string(parameter).replace(place, projections[0].size(), part));
  return parts;
}

bool Architecture::is_redundant(std::string_view tensor) const {
  return contains_any("." + std::string(tensor) + ".", redundant);
}

std::string Architecture::tensor_name(std::string_view parameter, Head head) const {
  std::string name = "." + std::string(parameter) + ".";
  for (std::size_t i = renames.size(); i-- > 0;)
    if (applies(renames[i], head)) replace(name, renames[i].ours, renames[i].theirs);
  replace(name, encoder, "." + std::string(base) + ".");
  return without_dots(name);
}

std::string_view Architecture::key_of(std::string_view name) const {
  const auto found = std::ranges::find(keys, name, &Key::ours);
  return found == keys.end() ? name : found->theirs;
}

}  // namespace nystrom
