// How well the Nyström method approximates matrices of random queries and keys.
#pragma once

#include <functional>

#include "core/base/fields.h"
#include "core/tensor.h"
#include "train/report/study.h"

namespace nystrom {

/// What is approximated: the raw scores Q Kᵀ, or softmax(Q Kᵀ / √d).
enum class ScoreKernel { raw, softmax };
/// Which rows stand for all: the first ones, random ones, or means of segments.
enum class LandmarkRule { first, random, means };
/// Rows of Q and K: independent normal ones, or smooth curves (each column a sum of slow waves), as
/// neighbours in a text are alike.
enum class SequenceRule { random, smooth };
/// Of the matrix between landmarks.
enum class StudyInverse { exact, iterative };

struct MatrixStudyOptions {
  std::int64_t d_model = 10, length = 50, trials = 10, iterations = 6;
  std::uint64_t seed = 0;
  ScoreKernel kernel = ScoreKernel::raw;
  SequenceRule sequence = SequenceRule::random;
  std::vector<LandmarkRule> landmarks = {LandmarkRule::first};
  std::vector<StudyInverse> inverses = {StudyInverse::exact};
};

std::span<const EnumName<ScoreKernel>> enum_names(ScoreKernel);
std::span<const EnumName<LandmarkRule>> enum_names(LandmarkRule);
std::span<const EnumName<SequenceRule>> enum_names(SequenceRule);
std::span<const EnumName<StudyInverse>> enum_names(StudyInverse);

/// Q or K [length, d_model] f64 of a trial.
Tensor study_rows(const MatrixStudyOptions& options, std::int64_t trial, const char* name);

/// The matrix itself, [length, length] f64.
Tensor study_matrix(ScoreKernel kernel, const Tensor& q, const Tensor& k);
/// Its Nyström approximation through k landmarks.
Tensor approximate_matrix(const MatrixStudyOptions& options, LandmarkRule rule,
                          StudyInverse inverse, const Tensor& q, const Tensor& k,
                          std::int64_t landmarks, std::int64_t trial);

/// Frobenius errors for 1 … length landmarks over the trials, and a worked example of five tokens.
/// `progress` is called with the number of landmarks done. InputError for the iterative inverse of
/// raw scores: its first step is scaled for rows that sum to 1.
Study study_matrices(const MatrixStudyOptions& options,
                     const std::function<void(std::int64_t)>& progress = {});

}  // namespace nystrom
