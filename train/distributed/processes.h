// How a process finds the other processes of its run.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/distributed/communicator.h"
#include "train/distributed/rendezvous.h"

namespace nystrom {

/// The program that started the processes of a run: none, mpirun or srun (mpi), or torchrun
/// (variables).
enum class Launcher { none, mpi, variables };

/// The launcher that the environment names. mpirun sets OMPI_COMM_WORLD_SIZE, PMI_SIZE or
/// PMIX_RANK. srun sets SLURM_STEP_NUM_TASKS above 1. torchrun sets WORLD_SIZE above 1, and
/// TORCHELASTIC_RUN_ID, by which it is known under srun.
Launcher launcher_of(const std::map<std::string, std::string>& environment);

/// The rank and the number of processes that the launcher's variables give, and which tell of it;
/// rank 0 of 1 without a launcher.
struct StartedAs {
  std::int64_t rank = 0, size = 1;
  std::vector<std::string> told_by = {};
};
/// Reads them from `environment`.
StartedAs started_as(const std::map<std::string, std::string>& environment);
/// Reads them from this process's own environment.
StartedAs started_as();

/// Makes all processes use the instruction set that every machine of the run has. Values that each
/// process computes for itself must have the same bits everywhere.
void use_common_cpu_level(Communicator& communicator);

/// The library that connects processes over MPI, beside the program or in its lib/. Nothing if the
/// program was built without it.
std::optional<std::filesystem::path> mpi_module();
/// The same for NCCL.
std::optional<std::filesystem::path> nccl_module();

/// The place of this process among those that torchrun started. Reads RANK, WORLD_SIZE, LOCAL_RANK,
/// MASTER_ADDR and MASTER_PORT. Throws an InputError when one is missing or invalid.
/// NYSTROM_RUN_TOKEN and torchrun's name of the run, if set, become the token.
MeetingPlace torchrun_place(const std::map<std::string, std::string>& environment);

/// The GPU of a process: its number on its machine, modulo the GPUs that it sees. Launchers may
/// show each process one GPU alone, which then has number 0.
int gpu_of_process(int local_rank);

/// Whether mpirun or srun started this process and the MPI module exists.
bool can_connect_over_mpi();

/// Connects the processes of a run, as the environment says; without a launcher the run has one
/// process. `on_gpus` asks for NCCL, which carries tensors on GPUs. MPI and NCCL are loaded only if
/// they are needed. On GPUs the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
/// MASTER_PORT) suffice, without MPI. Throws an InputError when a module is missing, or cannot
/// connect the processes that the launcher started.
std::unique_ptr<Communicator> connect_processes(bool on_gpus);

}  // namespace nystrom
