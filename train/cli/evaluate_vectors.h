// The parts of nystrom evaluate that measure vectors of texts.
#pragma once

#include <string>
#include <vector>

#include "train/cli/embedding_settings.h"

namespace nystrom {

/// What vectors are measured on.
struct VectorEvaluation {
  std::string retrieval;           ///< a folder in BEIR's form; or
  std::vector<std::string> pairs;  ///< files of scored pairs; or
  /// Files of labelled texts: those to fit a classifier to, and those that it is measured on.
  std::vector<std::string> classify, test;
  std::optional<std::string> split;
  EmbeddingFlags flags;
};

/// Measures the vectors of a model, and prints the scores in the first process.
void evaluate_vectors(const std::string& model, const std::vector<std::string>& overrides,
                      const VectorEvaluation& evaluation, DType dtype, Device device, bool json,
                      Log& log, Communicator& communicator);

}  // namespace nystrom
