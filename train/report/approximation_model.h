// The quality of attention approximations in a trained model on real text, by layer and head.
#pragma once

#include <functional>

#include "data/pretraining/loader.h"
#include "train/report/study.h"
#include "train/state/model_folder.h"

namespace nystrom {

/// The longest sequence of a study, because exact attention matrices are computed.
inline constexpr std::int64_t longest_studied_sequence = 2048;

/// Findings about one head of one layer: means over the sequences.
struct HeadFindings {
  double entropy = 0;  ///< of the exact attention, in nats
  /// The effective rank of its matrix: exp of the entropy of the singular values' shares.
  double effective_rank = 0;
  std::vector<double> spectrum;  ///< singular values divided by the largest
  /// |AZA − A| / |A| after 0, 1, … steps. Empty if sequences are not longer than the number of
  /// landmarks.
  std::vector<double> residuals;
  struct Errors {
    /// |approximation − exact| / |exact| of the attention's output and of its matrix.
    double out = 0, matrix = 0;
  };
  std::vector<Errors> errors;  ///< by variant
};

/// The masked-LM loss of a model with some attention in every layer.
struct LossFindings {
  double loss = 0;
  /// The difference from exact attention. All values are NaN if the weights do not fit.
  double change = 0;
  double standard_error = 0;  ///< of the change, over sequences
};

/// An attention that replaces the exact one.
struct AttentionVariant {
  std::string group, setting;  ///< "landmarks", "32"
  ModelConfig config;
  bool convolution = true;
  /// False if the attention needs its own parameters, or differs in the convolution only.
  bool has_errors = true;
};

/// All findings about a model.
struct ModelFindings {
  ModelConfig config;
  std::int64_t sequences = 0, length = 0, loss_sequences = 0, loss_tokens = 0;
  std::vector<AttentionVariant> variants;  ///< the unchanged model first, then exact attention
  std::vector<std::vector<HeadFindings>> layers;  ///< [layer][head]
  std::vector<LossFindings> losses;               ///< by variant
};

/// Called with the number of finished parts of the work, and their total.
using StudyProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Runs the unchanged model in f64 on `sequences` of the longest samples. At each layer, computes
/// the output of every other attention for the same queries, keys and values. Then computes the
/// masked-LM loss with each attention in all layers, in f32, on eight times as many sequences with
/// equal masks. Throws an InputError for sequences longer than longest_studied_sequence, or of
/// fewer than 4 tokens.
ModelFindings measure_model(const ModelFolder& folder, const MaskedSamples& samples,
                            std::int64_t sequences, const StudyProgress& progress = {});

/// Tables, charts and sentences about the findings.
Study study_of(const ModelFindings& findings);

}  // namespace nystrom
