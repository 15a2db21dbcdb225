#include "core/threads.h"

#include <algorithm>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/base/check.h"

namespace nystrom {

#ifdef _OPENMP
namespace {

[[maybe_unused]] const bool first_thread_has_fixed_teams = (disable_dynamic_threads(), true);

}  // namespace

void disable_dynamic_threads() {
  omp_set_dynamic(0);
  set_num_threads(omp_get_max_threads());
}
void set_num_threads(int n) {
  require(n >= 1, "the number of threads must be at least 1, got {}", n);
  omp_set_num_threads(std::min(n, omp_get_thread_limit()));
}
int num_threads() { return omp_get_max_threads(); }
#else
void disable_dynamic_threads() {}
void set_num_threads(int n) {
  require(n >= 1, "the number of threads must be at least 1, got {}", n);
}
int num_threads() { return 1; }
#endif

}  // namespace nystrom
