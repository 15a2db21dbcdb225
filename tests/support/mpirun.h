// The command with which tests start several processes of the program.
#pragma once

#include <cstdlib>
#include <string>

namespace nystrom::testing {

/// Options of mpirun for machines with fewer cores than processes, and for root. Containers forbid
/// shared memory by system calls between processes. Open MPI leaks memory, which the address
/// sanitizer would report.
inline const std::string mpirun =
    "env ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMP_NUM_THREADS=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "
    "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none mpirun ";

inline bool has_mpirun() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }

}  // namespace nystrom::testing
