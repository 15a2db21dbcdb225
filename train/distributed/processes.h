// How a process learns that it is one of several.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "train/distributed/communicator.h"

namespace nystrom {

/// Who started this process beside others.
enum class Launcher { none, mpi, variables };

/// By the environment: mpirun (OMPI_COMM_WORLD_SIZE, PMI_SIZE, PMIX_RANK), srun
/// (SLURM_STEP_NUM_TASKS above 1), or the variables of torchrun alone (WORLD_SIZE above 1).
Launcher launcher_of(const std::map<std::string, std::string>& environment);

/// Which of how many processes this one was started as, by the same variables; 0 of 1 without a
/// launcher.
struct StartedAs {
  std::int64_t rank = 0, size = 1;
};
StartedAs started_as(const std::map<std::string, std::string>& environment);
/// By this process's environment.
StartedAs started_as();

/// Machines with unlike processors compute with what all have: what every process computes for
/// itself must be the same bits everywhere.
void use_common_cpu_level(Communicator& communicator);

/// The modules that speak MPI and NCCL, beside the program or in its lib/; nothing where it was
/// built without.
std::optional<std::filesystem::path> mpi_module();
std::optional<std::filesystem::path> nccl_module();

/// This process among those that torchrun started.
struct TorchrunPlace {
  int rank, size, local_rank;
  std::string address;  ///< "host:port" at which the first one listens for the others
};
/// From RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. InputError when one is missing
/// or makes no sense.
TorchrunPlace torchrun_place(const std::map<std::string, std::string>& environment);

/// Whether mpirun or srun started this process, and the module for MPI is there.
bool can_connect_over_mpi();

/// The communicator of a run, of one process unless the environment says otherwise; `on_gpus` for
/// tensors there. MPI and NCCL are looked for only then. The variables of torchrun (RANK,
/// WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT) do for GPUs, without MPI. InputError when a
/// module is missing, or cannot do what the launcher promised.
std::unique_ptr<Communicator> connect_processes(bool on_gpus);

}  // namespace nystrom
