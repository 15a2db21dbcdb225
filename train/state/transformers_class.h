// The limits of transformers' own Nyströmformer classes, and their differences from nystrom.
#pragma once

#include <string>

#include "nn/model_config.h"

namespace nystrom {

/// Whether all layers compute exact attention. Transformers' Nyströmformer does for equal numbers
/// of landmarks and of segment_means_seq_len.
bool has_exact_attention(const ModelConfig& config);

/// The reason why transformers cannot represent a model, empty if it can: an option that its class
/// lacks, or a segment_means_seq_len that num_landmarks does not divide, or that exceeds the
/// position table.
std::string export_obstacle(const ModelConfig& config);

/// Whether transformers' own class computes the same as nystrom, for the lengths that it accepts.
/// Its structure must represent the model. Attention must be exact (kind softmax, for which
/// hf_config_text sets segment_means_seq_len to num_landmarks), or have semantics transformers with
/// the inverse and landmarks of that class. convolution_reads_padding is an exception. A folder of
/// such a model has the class's model_type, any other has "nystrom".
bool computed_by_transformers(const ModelConfig& config);

/// Whether the convolution of transformers' own class reads padding and nystrom's does not. Then
/// the shorter texts of a batch get other results there than alone.
bool convolution_reads_padding(const ModelConfig& config);

}  // namespace nystrom
