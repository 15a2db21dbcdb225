#include "train/state/transformers_class.h"

#include "core/check.h"

namespace nystrom {
namespace {

/// The reason why transformers' class lacks these embeddings or activations of heads; empty if
/// none.
std::string obstacle_of_embeddings(const ModelConfig& config) {
  if (config.positions == Positions::none)
    return "positions are none, and transformers' Nyströmformer always adds position embeddings";
  if (config.positions == Positions::rope)
    return "positions are rope, and transformers' Nyströmformer has a table of positions";
  if (config.positions == Positions::skip_padding)
    return "positions are skip_padding, and transformers' Nyströmformer counts padding";
  if (config.position_offset != 2)
    return fmt::format(
        "position_offset is {}, and transformers' Nyströmformer reads positions from row 2 on",
        config.position_offset);
  if (config.type_vocab_size == 0)
    return "type_vocab_size is 0, and transformers' Nyströmformer always adds token types";
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
  return "";
}

/// The reason why transformers' class lacks these blocks; empty if none.
std::string obstacle_of_blocks(const ModelConfig& config) {
  if (config.attention.window)
    return fmt::format("attention.window is {}, and transformers' Nyströmformer has no windows",
                       *config.attention.window);
  if (config.mlp != Mlp::gelu)
    return fmt::format("mlp is {}, and transformers' Nyströmformer has no gate",
                       enum_name(config.mlp));
  if (!config.bias) return "bias is false, and transformers' Nyströmformer has biases";
  if (config.final_norm) return "final_norm is true, and transformers' Nyströmformer has none";
  if (config.head_transform)
    return "head_transform is true, and transformers' Nyströmformer has it in its masked-LM head "
           "alone";
  return "";
}

/// The reason why transformers cannot run the model, independent of its attention; empty if none.
std::string obstacle_of_structure(const ModelConfig& config) {
  if (config.embed_dim)
    return fmt::format(
        "the input is features (embed_dim {}), and transformers' Nyströmformer takes token ids",
        *config.embed_dim);
  if (config.norm != Norm::post)
    return "norm is pre, and transformers' Nyströmformer normalises after each residual only";
  if (config.head == Head::replaced_tokens)
    return "its head tells replaced tokens, and transformers' Nyströmformer has no such class";
  if (const std::string obstacle = obstacle_of_blocks(config); !obstacle.empty()) return obstacle;
  if (const std::string obstacle = obstacle_of_embeddings(config); !obstacle.empty())
    return obstacle;
  if (config.head == Head::sequence_classification && config.pooling != Pooling::first)
    return fmt::format(
        "pooling is {}, and transformers' NystromformerForSequenceClassification reads the first "
        "token",
        enum_name(config.pooling));
  if (config.has_towers())
    return "pairs are towers, and transformers' Nyströmformer reads a pair as one sequence";
  for (const auto& [kind, name] : enum_names(AttentionKind{})) {
    const bool theirs = kind == AttentionKind::nystrom || kind == AttentionKind::softmax;
    if (!theirs && config.has_kind(kind))
      return fmt::format(
          "attention.kind is {}, and transformers' Nyströmformer has Nyström and exact attention "
          "only",
          name);
  }
  if (config.has_kind(AttentionKind::nystrom) && config.has_kind(AttentionKind::softmax))
    return "attention.layers mixes Nyström and exact attention, and transformers' Nyströmformer "
           "has one kind in all layers";
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
