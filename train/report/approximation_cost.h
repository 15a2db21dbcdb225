// Time and memory of every attention kind against the length of the sequence.
#pragma once

#include <functional>

#include "core/device.h"
#include "core/dtype.h"
#include "nn/model_config.h"
#include "train/report/study.h"

namespace nystrom {

struct CostStudyOptions {
  std::vector<AttentionKind> kinds;             ///< empty: all
  std::int64_t shortest = 256, longest = 8192;  ///< lengths double in between
  std::int64_t batch = 1, heads = 4, head_dim = 64;
  AttentionConfig attention;  ///< the options of the kinds
  bool train = true;          ///< forward and backward; else forward alone
  std::int64_t repeats = 5;   ///< the fastest counts
  DType dtype = DType::f32;
  Device device;
};

/// One attention, without projections and convolution, of random queries, keys and values: the
/// fastest of some runs, and the peak of the arena above what the inputs take, which is exact.
/// Exponents are fitted to the last three lengths. `progress` is called with the measurements done
/// and their number.
Study study_cost(const CostStudyOptions& options,
                 const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace nystrom
