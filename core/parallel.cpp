#include "core/cpu/parallel.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {

#ifdef _OPENMP
namespace {

/// oneDNN shares its work among the threads that it asks for, and leaves out what falls to those that OMP_DYNAMIC or OMP_THREAD_LIMIT
/// refuse: none is to be asked for in vain.
[[maybe_unused]] const bool all_threads_are_given = [] {
  omp_set_dynamic(0);
  set_num_threads(omp_get_max_threads());
  return true;
}();

}  // namespace

void set_num_threads(int n) {
  require(n >= 1, "the number of threads must be at least 1, got {}", n);
  omp_set_num_threads(std::min(n, omp_get_thread_limit()));
}
int num_threads() { return omp_get_max_threads(); }
#else
void set_num_threads(int n) { require(n >= 1, "the number of threads must be at least 1, got {}", n); }
int num_threads() { return 1; }
#endif

}  // namespace nystrom
