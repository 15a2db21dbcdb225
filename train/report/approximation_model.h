// How well a trained model's attention is approximated, layer by layer and head by head, on real
// text.
#pragma once

#include <functional>

#include "data/pretraining/loader.h"
#include "train/checkpoint/model_folder.h"
#include "train/report/study.h"

namespace nystrom {

/// Exact attention matrices are formed: longer sequences are refused.
inline constexpr std::int64_t longest_studied_sequence = 2048;

/// What is found about one head of one layer: means over the sequences.
struct HeadFindings {
  double entropy = 0;  ///< of the exact attention, in nats
  double effective_rank =
      0;  ///< of its matrix: exp of the entropy of the shares of the singular values
  std::vector<double> spectrum;   ///< singular values over the largest
  std::vector<double> residuals;  ///< |AZA − A| / |A| after 0, 1, … steps; empty where the
                                  ///< sequences are no longer than the landmarks
  struct Errors {
    double out = 0, matrix = 0;  ///< |approximation − exact| / |exact| of the attention's output
                                 ///< and of its matrix
  };
  std::vector<Errors> errors;  ///< by variant
};

/// The masked loss of a model whose every layer has some attention.
struct LossFindings {
  double loss = 0;
  double change =
      0;  ///< against exact attention; NaN, like all of it, where the weights do not fit
  double standard_error = 0;  ///< of the change, over sequences
};

/// An attention that stands in for the exact one.
struct AttentionVariant {
  std::string group, setting;  ///< "landmarks", "32"
  ModelConfig config;
  bool convolution = true;
  bool has_errors =
      true;  ///< not where it needs parameters of its own, or differs in the convolution alone
};

struct ModelFindings {
  ModelConfig config;
  std::int64_t sequences = 0, length = 0, loss_sequences = 0, loss_tokens = 0;
  std::vector<AttentionVariant> variants;  ///< the model as it is first, then exact attention
  std::vector<std::vector<HeadFindings>> layers;  ///< [layer][head]
  std::vector<LossFindings> losses;               ///< by variant
};

/// Called with the parts of the work that are done, and their number.
using StudyProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Runs the model as it is configured, in f64, on `sequences` of the longest samples, and asks at
/// each layer what other attention would have made of the same queries, keys and values. Then the
/// masked loss with each of them in all layers, in f32, on eight times as many sequences with the
/// same masks. InputError for sequences longer than longest_studied_sequence, or of fewer than 4
/// tokens.
ModelFindings measure_model(const ModelFolder& folder, const MaskedSamples& samples,
                            std::int64_t sequences, const StudyProgress& progress = {});

/// Tables, charts and sentences.
Study study_of(const ModelFindings& findings);

}  // namespace nystrom
