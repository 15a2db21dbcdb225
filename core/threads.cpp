#include "core/threads.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <omp.h>

#include "core/base/control_groups.h"
#include "core/base/require.h"

namespace nystrom {
namespace {

/// The threads without a word of the user: OpenMP's, which count the processors, and no more than
/// the quota of the control groups pays for.
int default_threads() {
  static const double quota = std::max(1.0, std::ceil(cpu_quota()));
  const int threads = std::min(omp_get_max_threads(), max_threads);
  if (std::getenv("OMP_NUM_THREADS") != nullptr || quota >= threads) return threads;
  return static_cast<int>(quota);
}

thread_local bool is_chosen = false;  // the number of threads, by set_num_threads

[[maybe_unused]] const bool first_thread_has_fixed_teams = (disable_dynamic_threads(), true);

}  // namespace

void disable_dynamic_threads() {
  omp_set_dynamic(0);
  if (!is_chosen) omp_set_num_threads(std::min(default_threads(), omp_get_thread_limit()));
}
void set_num_threads(int n) {
  require(n >= 1, "the number of threads must be at least 1, got {}", n);
  is_chosen = true;
  omp_set_num_threads(std::min(n, omp_get_thread_limit()));
}
int num_threads() { return omp_get_max_threads(); }
void end_waiting_threads() { omp_pause_resource_all(omp_pause_hard); }

}  // namespace nystrom
