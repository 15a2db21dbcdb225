#include "core/cpu/parallel.h"

#include "core/check.h"

namespace nystrom {

#ifdef _OPENMP
void set_num_threads(int n) {
  require(n >= 1, "the number of threads must be at least 1, got {}", n);
  omp_set_num_threads(n);
}
int num_threads() { return omp_get_max_threads(); }
#else
void set_num_threads(int n) { require(n >= 1, "the number of threads must be at least 1, got {}", n); }
int num_threads() { return 1; }
#endif

}  // namespace nystrom
