// The number of threads of kernels.
#pragma once

namespace nystrom {

/// The most threads that a user may ask for; OMP_NUM_THREADS gives no more.
inline constexpr int max_threads = 4096;

/// Sets the number of threads that kernels use when this thread calls them, n ≥ 1. OMP_THREAD_LIMIT
/// caps it.
void set_num_threads(int n);
/// The number of threads that kernels use when this thread calls them. By default as many as
/// processors, or as the quota of a container allows; OMP_NUM_THREADS decides where it is set.
int num_threads();
/// Ends the threads that wait for this thread's next parallel work, which starts them again. A fork
/// would leave the child a team without its threads.
void end_waiting_threads();
/// Disables dynamic threads for the calling thread, whatever OMP_DYNAMIC and OMP_THREAD_LIMIT say.
/// oneDNN divides work among the threads that it requests. If OpenMP granted fewer threads, part of
/// the work would never be computed.
void disable_dynamic_threads();

}  // namespace nystrom
