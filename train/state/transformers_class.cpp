#include "train/state/transformers_class.h"

#include "core/check.h"
#include "train/state/config_parts.h"

namespace nystrom {
namespace {

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

std::string export_obstacle(const ModelConfig& config) {
  const std::string obstacle = obstacle_of_structure(config);
  return obstacle.empty() && config.has_kind(AttentionKind::nystrom) ? obstacle_of_length(config)
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
