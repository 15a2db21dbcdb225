// The arguments that all forms of attention share.
#pragma once

#include "core/kernels.h"

namespace nystrom::cuda {

/// What kernels::attention reads.
struct AttentionOperands {
  CView q, k, v;
  Spans queries, keys;
  CView key_mask = {};
  EmptyRows empty = EmptyRows::zero;
  Scoring scoring = 1;
};

}  // namespace nystrom::cuda
