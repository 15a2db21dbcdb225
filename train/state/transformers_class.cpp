#include "train/state/transformers_class.h"

#include "core/check.h"

namespace nystrom {
namespace {

/// The reason why transformers cannot run the model, independent of its attention's length; empty
/// if none.
std::string obstacle_of_structure(const ModelConfig& config) {
  const auto against = [](const std::string& ours, const char* theirs) {
    return fmt::format("{}, and transformers' Nyströmformer {}", ours, theirs);
  };
  if (config.embed_dim)
    return against(fmt::format("the input is features (embed_dim {})", *config.embed_dim),
                   "takes token ids");
  if (config.norm != Norm::post)
    return against("norm is pre", "normalises after each residual only");
  if (config.head == Head::replaced_tokens)
    return against("its head tells replaced tokens", "has no such class");
  if (config.attention.window)
    return against(fmt::format("attention.window is {}", *config.attention.window),
                   "has no windows");
  if (config.mlp != Mlp::gelu)
    return against(fmt::format("mlp is {}", enum_name(config.mlp)), "has no gate");
  if (!config.bias) return against("bias is false", "has biases");
  if (config.final_norm) return against("final_norm is true", "has none");
  if (config.head_transform)
    return against("head_transform is true", "has it in its masked-LM head alone");
  if (config.positions == Positions::none)
    return against("positions are none", "always adds position embeddings");
  if (config.positions == Positions::rope)
    return against("positions are rope", "has a table of positions");
  if (config.positions == Positions::skip_padding)
    return against("positions are skip_padding", "counts padding");
  if (config.position_offset != 2)
    return against(fmt::format("position_offset is {}", config.position_offset),
                   "reads positions from row 2 on");
  if (config.type_vocab_size == 0)
    return against("type_vocab_size is 0", "always adds token types");
  if (config.embedding_width() != config.hidden_size)
    return fmt::format(
        "embedding_size is {}, and transformers' Nyströmformer has embeddings of hidden_size {}",
        config.embedding_width(), config.hidden_size);
  ModelConfig usual = config;
  usual.transform_act = usual.classifier_act = std::nullopt;
  if (config.head == Head::masked_lm &&
      config.transform_activation() != usual.transform_activation())
    return fmt::format(
        "transform_act is {}, and transformers' NystromformerForMaskedLM has hidden_act {}",
        enum_name(config.transform_activation()), enum_name(config.hidden_act));
  const bool classifies =
      config.head == Head::sequence_classification || config.head == Head::multiple_choice;
  if (classifies && config.classifier_activation() != usual.classifier_activation())
    return fmt::format("classifier_act is {}, and transformers' {} has {}",
                       enum_name(config.classifier_activation()), enum_name(config.head),
                       enum_name(usual.classifier_activation()));
  if (config.head == Head::sequence_classification && config.pooling != Pooling::first)
    return fmt::format(
        "pooling is {}, and transformers' NystromformerForSequenceClassification reads the first "
        "token",
        enum_name(config.pooling));
  if (config.has_towers()) return against("pairs are towers", "reads a pair as one sequence");
  for (const auto& [kind, name] : enum_names(AttentionKind{})) {
    const bool theirs = kind == AttentionKind::nystrom || kind == AttentionKind::softmax;
    if (!theirs && config.has_kind(kind))
      return against(fmt::format("attention.kind is {}", name),
                     "has Nyström and exact attention only");
  }
  if (config.has_kind(AttentionKind::nystrom) && config.has_kind(AttentionKind::softmax))
    return against("attention.layers mixes Nyström and exact attention",
                   "has one kind in all layers");
  return "";
}

/// The reason why transformers cannot run Nyström attention at the model's length; empty if none.
std::string obstacle_of_length(const ModelConfig& config) {
  const std::int64_t length = config.segment_means_seq_len,
                     landmarks = config.attention.num_landmarks;
  if (length % landmarks != 0)
    return fmt::format(
        "num_landmarks {} does not divide the sequence length {} (segment_means_seq_len), which "
        "transformers cuts into equal segments",
        landmarks, length);
  if (length > config.max_position_embeddings && !config.exact_in_transformers())
    return fmt::format(
        "segment_means_seq_len {} exceeds max_position_embeddings {}, and transformers needs rows "
        "of just that length",
        length, config.max_position_embeddings);
  return "";
}

}  // namespace

bool has_exact_attention(const ModelConfig& config) {
  return config.has_only(AttentionKind::softmax) ||
         (config.has_only(AttentionKind::nystrom) &&
          config.attention.semantics == Semantics::transformers && config.exact_in_transformers());
}

std::string export_obstacle(const ModelConfig& config, bool softmax) {
  const std::string obstacle = obstacle_of_structure(config);
  return obstacle.empty() && !softmax && config.has_kind(AttentionKind::nystrom)
             ? obstacle_of_length(config)
             : obstacle;
}

bool computed_by_transformers(const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  if (!obstacle_of_structure(config).empty()) return false;
  if (config.has_only(AttentionKind::softmax)) return true;
  if (attention.semantics != Semantics::transformers) return false;
  return config.exact_in_transformers() ||
         (attention.inverse == Inverse::iterative && attention.inverse_iterations == 6 &&
          attention.landmark_source == LandmarkSource::queries_and_keys);
}

bool convolution_reads_padding(const ModelConfig& config) {
  return config.attention.semantics == Semantics::nystrom &&
         config.attention.conv_kernel_size.value_or(1) > 1;
}

}  // namespace nystrom
