// How many threads kernels use.
#pragma once

namespace nystrom {

/// Threads that kernels use which the calling thread starts; n ≥ 1. At most as many as
/// OMP_THREAD_LIMIT allows.
void set_num_threads(int n);
int num_threads();
/// From here on the calling thread asks OpenMP for no thread in vain, whatever OMP_DYNAMIC and
/// OMP_THREAD_LIMIT say: oneDNN shares its work among those that it asks for, and what falls to one
/// that is refused is never computed.
void disable_dynamic_threads();

}  // namespace nystrom
