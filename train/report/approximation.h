// The studies of nystrom approximation: the quality and the cost of Nyström attention.
#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "data/pretraining/loader.h"
#include "nn/model_config.h"
#include "train/report/study.h"
#include "train/state/model_folder.h"

namespace nystrom {

// ---- The Nyström method on matrices of random queries and keys (approximation_matrices.cpp) -----

/// The approximated matrix: the raw scores Q Kᵀ, or softmax(Q Kᵀ / √d).
enum class ScoreKernel { raw, softmax };
/// The choice of landmarks: the first rows, random rows, or means of segments.
enum class LandmarkRule { first, random, means };
/// The rows of Q and K: independent normal ones, or smooth curves. In smooth curves each column is
/// a sum of slow waves, so neighbours are similar, as in text.
enum class SequenceRule { random, smooth };
/// The options of study_matrices.
struct MatrixStudyOptions {
  std::int64_t d_model = 10, length = 50, trials = 10, iterations = 6, seed = 0;
  ScoreKernel kernel = ScoreKernel::raw;
  SequenceRule sequence = SequenceRule::random;
  std::vector<LandmarkRule> landmarks = {LandmarkRule::first};
  std::vector<Inverse> inverses = {Inverse::exact};  ///< of landmarks: exact or iterative
};

/// The rows of Q or K for one trial: [length, d_model] f64.
Tensor study_rows(const MatrixStudyOptions& options, std::int64_t trial, const char* name);

/// The exact matrix, [length, length] f64.
Tensor study_matrix(ScoreKernel kernel, const Tensor& q, const Tensor& k);
/// Its Nyström approximation through `landmarks` landmarks, [length, length] f64.
Tensor approximate_matrix(const MatrixStudyOptions& options, LandmarkRule rule, Inverse inverse,
                          const Tensor& q, const Tensor& k, std::int64_t landmarks,
                          std::int64_t trial);

/// Frobenius errors for 1 … length landmarks over all trials, and a worked example of five tokens.
/// Keeps the matrices of one trial at a time. `progress` is called with the number of
/// approximations that are done, of all counts in all trials, and their total. Throws an InputError
/// for the iterative inverse of raw scores, because its first iterate assumes rows that sum to 1.
Study study_matrices(const MatrixStudyOptions& options, const StudyProgress& progress = {});

// ---- A trained model on real text, by layer and head (approximation_model.cpp) ------------------

/// The longest sequence of a study, because exact attention matrices are computed.
inline constexpr std::int64_t longest_studied_sequence = 2048;

/// Runs the unchanged model in f64 on `sequences` of the longest samples. At each layer, computes
/// the output of every other attention for the same queries, keys and values. Then computes the
/// masked-LM loss with each attention in all layers, in f32, on eight times as many sequences with
/// equal masks. The result has tables, charts and sentences about the findings. Throws an
/// InputError for sequences longer than longest_studied_sequence, or of fewer than 4 tokens.
Study study_model(const ModelFolder& folder, const MaskedSamples& samples, std::int64_t sequences,
                  const StudyProgress& progress);

// ---- Time and memory of every attention kind by the length (approximation_cost.cpp) -------------

/// The options of study_cost.
struct CostStudyOptions {
  std::vector<AttentionKind> kinds;             ///< empty: all
  std::int64_t shortest = 256, longest = 8192;  ///< lengths double from shortest to longest
  std::int64_t batch = 1, heads = 4, head_dim = 64;
  std::int64_t tokens = 0;    ///< in the place of batch: as many sequences as have them
  AttentionConfig attention;  ///< options of the kinds
  bool train = true;          ///< forward and backward pass, or forward only
  std::int64_t repeats = 5;   ///< the fastest run counts
  DType dtype = DType::f32;
  Device device;
};

/// Measures attention without projections and convolution, on random queries, keys and values.
/// Times are the fastest of several runs. Memory is the arena's exact peak beyond the inputs.
/// Exponents are fitted to the last three lengths. `progress` is called with the number of finished
/// measurements and their total.
Study study_cost(const CostStudyOptions& options, const StudyProgress& progress = {});

}  // namespace nystrom
