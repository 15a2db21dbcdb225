// The quality of the Nyström method on matrices of random queries and keys.
#pragma once

#include "core/base/fields.h"
#include "core/tensor.h"
#include "nn/model_config.h"
#include "train/report/study.h"

namespace nystrom {

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

std::span<const EnumName<ScoreKernel>> enum_names(ScoreKernel);
std::span<const EnumName<LandmarkRule>> enum_names(LandmarkRule);
std::span<const EnumName<SequenceRule>> enum_names(SequenceRule);

/// The rows of Q or K for one trial: [length, d_model] f64.
Tensor study_rows(const MatrixStudyOptions& options, std::int64_t trial, const char* name);

/// The exact matrix, [length, length] f64.
Tensor study_matrix(ScoreKernel kernel, const Tensor& q, const Tensor& k);
/// Its Nyström approximation through `landmarks` landmarks, [length, length] f64.
Tensor approximate_matrix(const MatrixStudyOptions& options, LandmarkRule rule, Inverse inverse,
                          const Tensor& q, const Tensor& k, std::int64_t landmarks,
                          std::int64_t trial);

/// Frobenius errors for 1 … length landmarks over all trials, and a worked example of five tokens.
/// `progress` is called with the number of landmarks that are done, and their total. Throws an
/// InputError for the iterative inverse of raw scores, because its first iterate assumes rows that
/// sum to 1.
Study study_matrices(const MatrixStudyOptions& options, const StudyProgress& progress = {});

}  // namespace nystrom
