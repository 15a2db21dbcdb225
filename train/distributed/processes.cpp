#include "train/distributed/processes.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/dispatch.h"
#include "train/distributed/transport.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* mpi_name = "libnystrom_mpi.so";
constexpr const char* nccl_name = "libnystrom_nccl.so";
constexpr std::initializer_list<const char*> size_variables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                               "SLURM_STEP_NUM_TASKS"};

/// An integer variable of a launcher; 0 if it is not set.
std::int64_t whole_variable(const std::map<std::string, std::string>& environment,
                            const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return 0;
  const auto number = number_of<std::int64_t>(found->second);
  require_input(number.has_value(),
                "{} is '{}', expected a whole number, as mpirun, srun and torchrun set it; unset "
                "it to start one process",
                name, printable(found->second, 40));
  return *number;
}

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string line = *entry;
    const std::size_t equals = line.find('=');
    if (equals != line.npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

/// Looks where a build, a bundle and an installation have their modules.
std::optional<fs::path> module_called(const char* name) {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& place :
       {folder / name, folder / "lib" / name, folder.parent_path() / "lib" / "nystrom" / name})
    if (fs::exists(place)) return place;
  return std::nullopt;
}

/// Loads a function of a module. `packages` are the packages that the module needs to build and to
/// run.
template <class Function>
Function function_of(const char* module, const char* name, const char* packages) {
  const auto path = module_called(module);
  require_input(path.has_value(),
                "started as one of several processes, but {} is not beside the program; build it "
                "where these are installed: {}; or start one process",
                module, packages);
  // RTLD_GLOBAL: plugins that OpenMPI loads need its symbols. It is never closed, because MPI
  // leaves threads and handlers behind.
  void* loaded = ::dlopen(path->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!loaded) {
    const std::string reason = ::dlerror();
    throw InputError(
        fmt::format("started as one of several processes, but {} cannot be loaded: {}; install {}",
                    module, reason, packages));
  }
  const auto function = reinterpret_cast<Function>(::dlsym(loaded, name));
  require(function != nullptr, "{} lacks {}", module, name);
  return function;
}

std::unique_ptr<Transport> connect_mpi() {
  return std::unique_ptr<Transport>(
      function_of<ConnectMpi>(mpi_name, "nystrom_connect_mpi", "openmpi-bin libopenmpi-dev")());
}

std::unique_ptr<Transport> connect_nccl(const NcclPlace& place) {
  return std::unique_ptr<Transport>(
      function_of<ConnectNccl>(nccl_name, "nystrom_connect_nccl", "libnccl2 libnccl-dev")(&place));
}

std::unique_ptr<Transport> connect_nccl_over_mpi() {
  std::unique_ptr<Transport> host = connect_mpi();
  const NcclPlace place{host.get(),
                        host->rank(),
                        host->size(),
                        host->local_rank(),
                        gpu_of_process(host->local_rank()),
                        {}};
  // The NCCL transport owns it from here on. If that cannot be created, the end of this process
  // ends the others.
  static_cast<void>(host.release());
  return connect_nccl(place);
}

/// An integer variable of torchrun, from `least` to `most`.
int number_between(const std::map<std::string, std::string>& environment, const std::string& name,
                   int least, int most) {
  const auto found = environment.find(name);
  require_input(
      found != environment.end(),
      "WORLD_SIZE is set, but {} is not: start the processes with mpirun, srun or torchrun", name);
  const auto number = number_of<int>(found->second);
  require_input(number && *number >= least && *number <= most,
                "{} is {}: expected a number from {} to {}, as torchrun sets it", name,
                printable(found->second, 40), least, most);
  return *number;
}

}  // namespace

MeetingPlace torchrun_place(const std::map<std::string, std::string>& environment) {
  MeetingPlace place;
  place.size = number_between(environment, "WORLD_SIZE", 2, 1 << 20);
  place.rank = number_between(environment, "RANK", 0, place.size - 1);
  place.local_rank = number_between(environment, "LOCAL_RANK", 0, place.size - 1);
  // torchrun may listen at MASTER_PORT itself and then sets this variable. The next port is free.
  const auto agent = environment.find("TORCHELASTIC_USE_AGENT_STORE");
  const bool taken = agent != environment.end() && agent->second == "True";
  const int port =
      number_between(environment, "MASTER_PORT", 1, taken ? 65534 : 65535) + (taken ? 1 : 0);
  require_input(environment.contains("MASTER_ADDR"),
                "WORLD_SIZE is set, but MASTER_ADDR is not: start the processes with mpirun, srun "
                "or torchrun");
  place.host = environment.at("MASTER_ADDR");
  place.port = std::to_string(port);
  for (const char* name : {"NYSTROM_RUN_TOKEN", "TORCHELASTIC_RUN_ID"})
    if (environment.contains(name)) place.token += environment.at(name) + "\n";
  return place;
}

Launcher launcher_of(const std::map<std::string, std::string>& environment) {
  // The innermost launcher comes first: srun starts torchrun, one on each machine, and its
  // variables reach the processes of torchrun too.
  if (environment.contains("TORCHELASTIC_RUN_ID") && whole_variable(environment, "WORLD_SIZE") > 1)
    return Launcher::variables;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    if (environment.contains(name)) return Launcher::mpi;
  if (whole_variable(environment, "SLURM_STEP_NUM_TASKS") > 1) return Launcher::mpi;
  return whole_variable(environment, "WORLD_SIZE") > 1 ? Launcher::variables : Launcher::none;
}

StartedAs started_as(const std::map<std::string, std::string>& environment) {
  // srun may have started mpirun.
  const auto first_of = [&](std::initializer_list<const char*> names, std::int64_t absent) {
    for (const char* name : names)
      if (environment.contains(name)) return whole_variable(environment, name);
    return absent;
  };
  const Launcher launcher = launcher_of(environment);
  if (launcher == Launcher::none) return {};
  std::vector<std::string> told_by;
  const auto tell = [&](std::initializer_list<const char*> names) {
    std::ranges::copy_if(names, std::back_inserter(told_by),
                         [&](const char* name) { return environment.contains(name); });
  };
  if (launcher == Launcher::variables) {
    tell({"WORLD_SIZE", "TORCHELASTIC_RUN_ID"});
    return {whole_variable(environment, "RANK"), whole_variable(environment, "WORLD_SIZE"),
            told_by};
  }
  tell(size_variables);
  tell({"PMIX_RANK"});
  const std::int64_t rank =
      first_of({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0);
  return {rank, first_of(size_variables, rank + 1), told_by};
}

StartedAs started_as() { return started_as(own_environment()); }

void use_common_cpu_level(Communicator& communicator) {
  // The number of processes for each level.
  std::vector<double> processes(static_cast<std::size_t>(best_cpu_level) + 1, 0);
  processes[static_cast<std::size_t>(cpu_level())] = 1;
  processes = communicator.sum(processes);
  const auto lowest = std::ranges::find_if(processes, [](double count) { return count > 0; });
  limit_cpu_level(static_cast<CpuLevel>(lowest - processes.begin()));
}

std::optional<fs::path> mpi_module() { return module_called(mpi_name); }
std::optional<fs::path> nccl_module() { return module_called(nccl_name); }

int gpu_of_process(int local_rank) { return local_rank % std::max(1, cuda::device_count()); }

bool can_connect_over_mpi() {
  return launcher_of(own_environment()) == Launcher::mpi && mpi_module();
}

std::unique_ptr<Communicator> connect_processes(bool on_gpus) {
  const auto environment = own_environment();
  const Launcher launcher = launcher_of(environment);
  if (launcher == Launcher::none) return std::make_unique<Communicator>();
  const bool size_is_told = std::ranges::any_of(
      size_variables, [&](const char* name) { return environment.contains(name); });
  if (launcher == Launcher::mpi && size_is_told && started_as(environment).size == 1 &&
      !mpi_module())
    return std::make_unique<Communicator>();
  if (launcher == Launcher::variables) {
    require_input(on_gpus,
                  "WORLD_SIZE is {0}, but on CPUs nystrom's processes are started by mpirun or "
                  "srun: mpirun -np {0} nystrom …; unset it to train in one process",
                  environment.at("WORLD_SIZE"));
    const MeetingPlace place = torchrun_place(environment);
    auto communicator = std::make_unique<Communicator>([place] {
      const auto share = [&](std::span<std::byte> bytes) { share_from_first(place, bytes); };
      return connect_nccl({nullptr, place.rank, place.size, place.local_rank,
                           gpu_of_process(place.local_rank), share});
    });
    use_common_cpu_level(*communicator);
    return communicator;
  }
  auto communicator = std::make_unique<Communicator>(on_gpus ? connect_nccl_over_mpi : connect_mpi);
  const std::int64_t started = started_as(environment).size;
  require_input(communicator->size() > 1 || started == 1,
                "{} processes were started, but MPI sees one: start them with the mpirun of the "
                "MPI that {} was built with, or with srun --mpi=pmix",
                started, mpi_name);
  use_common_cpu_level(*communicator);
  return communicator;
}

}  // namespace nystrom
