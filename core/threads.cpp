#include "core/cpu/parallel.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {

#ifdef _OPENMP
namespace {

[[maybe_unused]] const bool first_thread_has_whole_teams = (take_whole_teams(), true);

}  // namespace

void take_whole_teams() {
  omp_set_dynamic(0);
  set_num_threads(omp_get_max_threads());
}
void set_num_threads(int n) {
  require(n >= 1, "the number of threads must be at least 1, got {}", n);
  omp_set_num_threads(std::min(n, omp_get_thread_limit()));
}
int num_threads() { return omp_get_max_threads(); }
#else
void take_whole_teams() {}
void set_num_threads(int n) { require(n >= 1, "the number of threads must be at least 1, got {}", n); }
int num_threads() { return 1; }
#endif

}  // namespace nystrom
