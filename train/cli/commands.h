// The subcommands of the program: each declares its options under CLI11's app and returns what runs
// it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/fields.h"
#include "core/device.h"
#include "core/dtype.h"
#include "train/distributed/communicator.h"
#include "train/logging/stop_signals.h"

namespace CLI {
class App;
}

namespace nystrom {

/// Options that every command has.
struct CommonOptions {
  std::vector<std::string> overrides;  ///< --set key=value
  std::string device = "cpu";
  int threads = 0;  ///< 0: as many as there are cores
  bool quiet = false;

  /// Declares them.
  void add_to(CLI::App& app);
  /// Sets the number of threads and gives the device to compute on; `gpu` is the one that is meant
  /// without a number. InputError when it cannot be used.
  Device apply(int gpu = 0) const;
  /// For a command that reads no configuration: InputError where there are overrides. `why` says
  /// what it does instead.
  void refuse_overrides(const std::string& command, const std::string& why) const;
};

/// A word of the command line as the user gave it. CLI11 takes one in brackets, such as the text
/// "[MASK]", for a list; so main puts a space in front of it, and a command that takes free text
/// takes it away again.
std::string unescape_brackets(const std::string& word);

/// The values of a --dtype option.
inline const std::vector<std::string> dtype_names = {"f32", "bf16", "f16", "f64"};

/// The words of an enum that has enum_names (core/base/fields.h), for CLI11 to check.
template <class E>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& entry : enum_names(E{})) names.emplace_back(entry.name);
  return names;
}

/// The value that one of these words stands for.
template <class E>
E value_named(const std::string& name) {
  for (const auto& entry : enum_names(E{})) {
    if (name == entry.name) return entry.value;
  }
  throw Error("no value is called " + name);
}

/// A declared subcommand: run() is called when it was chosen, in several processes only when it
/// spreads its work over them.
struct Command {
  CLI::App* app;
  std::function<void()> run;
  bool spreads = false;
};

Command add_forward_command(CLI::App& app);
Command add_info_command(CLI::App& app);
Command add_bench_command(CLI::App& app);
Command add_approximation_command(CLI::App& app);
Command add_doctor_command(CLI::App& app);
Command add_config_command(CLI::App& app);
Command add_check_command(CLI::App& app);
Command add_prepare_command(CLI::App& app);
Command add_listops_command(CLI::App& app);
Command add_pretrain_command(CLI::App& app);
Command add_cache_command(CLI::App& app);
Command add_finetune_command(CLI::App& app);
Command add_evaluate_command(CLI::App& app);
Command add_predict_command(CLI::App& app);
Command add_export_command(CLI::App& app);
Command add_extend_command(CLI::App& app);
Command add_report_command(CLI::App& app);

struct RunResult;
class Log;
/// Throws Interrupted, and records it in the run's log, when the run was stopped before its end.
void require_finished(const RunResult& result, Log& log);

/// Runs `work` on `device` as one of the processes that mpirun or srun started, or alone. In
/// several processes each machine's first one has its first GPU, and so on. An error of one ends
/// all, with its message; where all have the same, the first one tells it.
void with_processes(const CommonOptions& options,
                    const std::function<void(Communicator&, Device)>& work);

}  // namespace nystrom
