// The sample ids of ops with dropout.
#pragma once

#include "autograd/var.h"

namespace nystrom {

/// Throws an Error unless `ids` is [b], or [b, 2] for x [b, c]: see kernels::dropout.
void require_sample_ids(const char* op, const Var& x, const Tensor& ids);

}  // namespace nystrom
