// The quality of attention approximations in a trained model on real text, by layer and head.
#pragma once

#include "data/pretraining/loader.h"
#include "train/report/study.h"
#include "train/state/model_folder.h"

namespace nystrom {

/// The longest sequence of a study, because exact attention matrices are computed.
inline constexpr std::int64_t longest_studied_sequence = 2048;

/// Runs the unchanged model in f64 on `sequences` of the longest samples. At each layer, computes
/// the output of every other attention for the same queries, keys and values. Then computes the
/// masked-LM loss with each attention in all layers, in f32, on eight times as many sequences with
/// equal masks. The result has tables, charts and sentences about the findings. Throws an
/// InputError for sequences longer than longest_studied_sequence, or of fewer than 4 tokens.
Study study_model(const ModelFolder& folder, const MaskedSamples& samples, std::int64_t sequences,
                  const StudyProgress& progress);

}  // namespace nystrom
