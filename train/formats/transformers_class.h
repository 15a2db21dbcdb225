// What transformers' own Nyströmformer classes can represent, and what they compute as nystrom
// does.
#pragma once

#include <string>

#include "nn/model_config.h"

namespace nystrom {

/// Whether transformers computes exact attention for a folder with this configuration.
bool is_exact_in_transformers(const ModelConfig& config);

/// Why transformers cannot represent a model, in words; empty when it can: pre-LN, input features,
/// no position embeddings, mean pooling, two towers, a baseline attention, a segment_means_seq_len
/// that num_landmarks does not divide or that exceeds the position table (not with `softmax`, where
/// it says nothing).
std::string export_obstacle(const ModelConfig& config, bool softmax);

/// Whether transformers' own class computes what nystrom does, given the lengths that it takes:
/// nothing of its structure is missing there, and attention is exact (kind softmax, for which
/// hf_config_text states num_landmarks as segment_means_seq_len) or has semantics transformers with
/// the one inverse and the landmarks of that class. Padding apart: that class's convolution reads
/// it. Such a folder has the class's model_type, any other "nystrom".
bool computed_by_transformers(const ModelConfig& config);

}  // namespace nystrom
