#include "train/processes.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/check.h"
#include "train/transport.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* module_name = "libnystrom_mpi.so";

std::int64_t number_of(const std::map<std::string, std::string>& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? 0 : std::atoll(found->second.c_str());
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

std::unique_ptr<Transport> connect_mpi() {
  const auto path = mpi_module();
  require_input(path.has_value(),
                "started as one of several processes, but {} is not beside the program; build it where MPI is installed (Debian: "
                "openmpi-bin libopenmpi-dev), or start one process",
                module_name);
  // Global: parts of OpenMPI that it loads itself look for its symbols. Never closed: MPI leaves threads and handlers behind.
  void* module = ::dlopen(path->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!module) {
    const std::string reason = ::dlerror();
    throw InputError(fmt::format("started as one of several processes, but MPI cannot be loaded: {}; install openmpi-bin", reason));
  }
  const auto connect = reinterpret_cast<ConnectTransport>(::dlsym(module, "nystrom_connect_mpi"));
  require(connect != nullptr, "{} lacks nystrom_connect_mpi", module_name);
  return std::unique_ptr<Transport>(connect());
}

}  // namespace

Launcher launcher_of(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    if (environment.contains(name)) return Launcher::mpi;
  if (number_of(environment, "SLURM_STEP_NUM_TASKS") > 1) return Launcher::mpi;
  return number_of(environment, "WORLD_SIZE") > 1 ? Launcher::variables : Launcher::none;
}

Launcher launcher_of_this_process() { return launcher_of(own_environment()); }

std::optional<fs::path> mpi_module() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& place : {folder / module_name, folder / "lib" / module_name, folder.parent_path() / "lib" / module_name})
    if (fs::exists(place)) return place;
  return std::nullopt;
}

std::unique_ptr<Communicator> connect_processes() {
  const auto environment = own_environment();
  const Launcher launcher = launcher_of(environment);
  if (launcher == Launcher::none) return std::make_unique<Communicator>();
  if (launcher == Launcher::variables) {
    const std::string& size = environment.at("WORLD_SIZE");
    throw InputError(
        fmt::format("WORLD_SIZE is {0}, but nystrom's processes are started by mpirun or srun: mpirun -np {0} nystrom …; unset it to train "
                    "in one process",
                    size));
  }
  auto communicator = std::make_unique<Communicator>(connect_mpi);
  std::int64_t started = 1;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    started = std::max(started, number_of(environment, name));
  require_input(communicator->size() > 1 || started == 1,
                "{} processes were started, but MPI sees one: start them with the mpirun of the MPI that {} was built with, or try srun "
                "--mpi=pmix or --mpi=pmi2",
                started, module_name);
  return communicator;
}

}  // namespace nystrom
