// How a process learns that it is one of several.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "train/communicator.h"

namespace nystrom {

/// Who started this process beside others.
enum class Launcher { none, mpi, variables };

/// By the environment: mpirun (OMPI_COMM_WORLD_SIZE, PMI_SIZE, PMIX_RANK), srun (SLURM_STEP_NUM_TASKS above 1), or the variables of
/// torchrun alone (WORLD_SIZE above 1).
Launcher launcher_of(const std::map<std::string, std::string>& environment);
Launcher launcher_of_this_process();

/// The module that speaks MPI, beside the program or in its lib/; nothing where it was built without.
std::optional<std::filesystem::path> mpi_module();

/// The communicator of a run, of one process unless the environment says otherwise. MPI is looked for only then. InputError when
/// mpi_module() is missing, or cannot do what the launcher promised.
std::unique_ptr<Communicator> connect_processes();

}  // namespace nystrom
