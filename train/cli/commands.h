// The subcommands of the program. Each add_…_command() declares a subcommand and its options in the
// CLI11 app, and returns the function that runs it.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/require.h"
#include "core/base/fields.h"
#include "core/base/stop_signals.h"
#include "core/device.h"
#include "core/dtype.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// The common options that mean something to a command.
struct CommonUse {
  bool set = true, device = true, threads = true;
};

/// The options that every command has.
struct CommonOptions {
  std::vector<std::string> overrides;  ///< --set key=value
  std::string device = "cpu";
  int threads = 0;  ///< 0: one per core
  bool quiet = false;

  /// Declares the options. Those without a `use` are not in the help.
  void add_to(CLI::App& app, const CommonUse& use = {});
  /// Sets the number of CPU threads and returns the device to compute on. `--device cuda` without a
  /// number selects GPU `gpu`. Throws an InputError if the device cannot be used.
  Device apply(int gpu = 0) const;
  /// Throws an InputError if there are overrides, for a command that reads no configuration. `why`
  /// is the reason in the message.
  void refuse_overrides(const std::string& command, const std::string& why) const;
};

/// The permitted values of a --dtype option.
inline const std::vector<std::string> dtype_names = {"f32", "bf16", "f16", "f64"};

/// The names of all values of an enum with enum_names (core/base/fields.h), for checks by CLI11.
template <class E>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& entry : enum_names(E{})) names.emplace_back(entry.name);
  return names;
}

/// The value with this name. Throws an Error if there is none.
template <class E>
E value_named(const std::string& name) {
  for (const auto& entry : enum_names(E{})) {
    if (name == entry.name) return entry.value;
  }
  throw Error("no value is called " + name);
}

/// A declared subcommand. main calls run() if the user chose it. Only a command that `spreads` its
/// work may run in several processes.
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
Command add_embed_command(CLI::App& app);
Command add_search_command(CLI::App& app);
Command add_export_command(CLI::App& app);
Command add_extend_command(CLI::App& app);
Command add_convert_command(CLI::App& app);
Command add_report_command(CLI::App& app);

/// Connects the processes that mpirun, srun or torchrun started, and runs `work` in this one with
/// its device; without a launcher there is one process. With `--device cuda` the n-th process on a
/// machine gets its n-th GPU. An error in one process ends all of them with its message. If all
/// have the same error, rank 0 reports it.
void with_processes(const CommonOptions& options,
                    const std::function<void(Communicator&, Device)>& work);

}  // namespace nystrom
/// A bar whose total is known from its first call on, which has the number of finished items.
std::function<void(std::int64_t done, std::int64_t total)> progress_of(const char* unit, Log& log);

/// A command whose work several processes share: each calls `work` (with_processes).
template <class Options>
Command spread(CLI::App* command, const std::shared_ptr<Options>& options,
               void (*work)(const Options&, Communicator&, Device)) {
  const auto run = [=] {
    with_processes(options->common, [&](Communicator& communicator, Device device) {
      work(*options, communicator, device);
    });
  };
  return {command, run, true};
}

