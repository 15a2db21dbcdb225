// The subcommands of the program. Each add_…_command() declares a subcommand and its options in the
// CLI11 app, and returns the function that runs it.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/base/log.h"
#include "core/base/require.h"
#include "core/device.h"
#include "core/dtype.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// The common options that mean something to a command.
struct CommonUse {
  bool set = true, device = true, threads = true;
  const char* json = nullptr;  ///< what --json prints, "one JSON object"; null: there is no --json
};

/// The options that commands have in common.
struct CommonOptions {
  std::vector<std::string> overrides;  ///< --set key=value
  std::string device = "cpu";
  int threads = 0;  ///< 0: one per core
  bool quiet = false, json = false;

  /// Declares the options; --set and --json only if they have a `use`. Scripts give --device and
  /// --threads to every command, and where they have no use they are not in the help.
  void add_to(CLI::App& app, const CommonUse& use = {});
  /// Sets the number of CPU threads and returns the device to compute on. `--device cuda` without a
  /// number selects GPU `gpu`. Throws an InputError if the device cannot be used.
  Device apply(int gpu = 0) const;
};

// ---- Declaring options -------------------------------------------------------------------------

/// Declares MODEL, which open_model opens.
void add_model_to(CLI::App& command, std::string& model);

/// Declares an option for a whole number from `lowest` to `highest`, with the default that `value`
/// has.
void add_number(CLI::App& command, const char* name, std::int64_t& value, const std::string& help,
                std::int64_t lowest = 1, std::int64_t highest = std::int64_t{1} << 31);
/// The same without a default.
void add_number(CLI::App& command, const char* name, std::optional<std::int64_t>& value,
                const std::string& help, std::int64_t lowest = 1,
                std::int64_t highest = std::int64_t{1} << 31);

/// Declares an option for the name of an enum's value, with the default that `value` has. `names`
/// are the permitted ones.
template <class E>
CLI::Option* add_choice(CLI::App& command, const char* name, E& value, const char* help,
                        const std::vector<std::string>& names = names_of<E>()) {
  const auto take = [&value](const std::string& word) { value = *value_named<E>(word); };
  return command.add_option_function<std::string>(name, take, help)
      ->check(CLI::IsMember(names))
      ->default_str(enum_name(value));
}
/// The same without a default.
template <class E>
CLI::Option* add_choice(CLI::App& command, const char* name, std::optional<E>& value,
                        const char* help) {
  const auto take = [&value](const std::string& word) { value = *value_named<E>(word); };
  return command.add_option_function<std::string>(name, take, help)
      ->check(CLI::IsMember(names_of<E>()));
}
/// The same for several values.
template <class E>
CLI::Option* add_choice(CLI::App& command, const char* name, std::vector<E>& values,
                        const char* help, const std::vector<std::string>& names = names_of<E>()) {
  const auto take = [&values](const std::vector<std::string>& words) {
    values.clear();
    for (const std::string& word : words) values.push_back(*value_named<E>(word));
  };
  return command.add_option_function<std::vector<std::string>>(name, take, help)
      ->check(CLI::IsMember(names))
      ->default_str(fmt::format("[{}]", fmt::join(names_of(values), ",")));
}

/// The permitted values of a --dtype option, and its help.
inline const std::vector<std::string> dtype_names = {"f32", "bf16", "f16", "f64"};
inline constexpr const char* dtype_help = "type of the computation; f16 only on GPUs";
inline constexpr const char* inference_dtype_help =
    "type of the computation; bf16 is faster where the processor has it; f16 only on GPUs";

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

/// A bar whose total is known from its first call on, which has the number of finished items.
std::function<void(std::int64_t done, std::int64_t total)> progress_of(const char* unit, Log& log);

/// Connects the processes that mpirun, srun or torchrun started, and runs `work` in this one with
/// its device; without a launcher there is one process. With `--device cuda` the n-th process on a
/// machine gets its n-th GPU. An error in one process ends all of them with its message. If all
/// have the same error, rank 0 reports it.
void with_processes(const CommonOptions& options,
                    const std::function<void(Communicator&, Device)>& work);

/// A command that one process does: it calls work(options, device, log).
template <class Options>
Command alone(CLI::App* command, const std::shared_ptr<Options>& options,
              void (*work)(const Options&, Device, Log&)) {
  const auto run = [=] {
    const Device device = options->common.apply();
    Log log(options->common.quiet);
    work(*options, device, log);
  };
  return {command, run};
}

/// A command whose work several processes share: each calls work(options, communicator, device,
/// log) (with_processes). Only the first one prints.
template <class Options>
Command spread(CLI::App* command, const std::shared_ptr<Options>& options,
               void (*work)(const Options&, Communicator&, Device, Log&)) {
  const auto run = [=] {
    with_processes(options->common, [&](Communicator& communicator, Device device) {
      Log log(options->common.quiet);
      if (!communicator.is_first()) log.mute();
      work(*options, communicator, device, log);
    });
  };
  return {command, run, true};
}

}  // namespace nystrom
