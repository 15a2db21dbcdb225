// Time and memory of every attention kind, as functions of the sequence length.
#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "nn/model_config.h"
#include "train/report/study.h"

namespace nystrom {

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
