// The program parses the command line, runs one subcommand, and reports an error as a message and
// an exit code.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <tuple>

#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/stop_signals.h"
#include "core/base/suggest.h"
#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/threads.h"
#include "train/cli/commands.h"
#include "train/cli/help.h"
#include "train/cli/piped_inputs.h"
#include "train/config/config_docs.h"
#include "train/distributed/processes.h"
#include "train/loop/failure.h"

namespace nystrom {

void CommonOptions::add_to(CLI::App& app, const CommonUse& use) {
  const auto group = [](bool shown) { return shown ? "Options" : ""; };
  if (use.json) app.add_flag("--json", json, std::string("print ") + use.json);
  if (use.set)
    app.add_option("--set", overrides, "override an option: --set model.hidden_dropout_prob=0")
        ->allow_extra_args(false)
        ->transform(full_override);
  app.add_option("--device", device, "cpu, cuda or cuda:N")
      ->capture_default_str()
      ->group(group(use.device));
  app.add_option("--threads", threads, "CPU threads; 0: one a core, within a container's quota")
      ->check(CLI::Range(0, max_threads))
      ->group(group(use.threads))
      ->capture_default_str();
  app.add_flag("--quiet", quiet, "print nothing but results, warnings and errors");
}

Device CommonOptions::apply(int default_gpu) const {
  if (threads > 0) set_num_threads(threads);
  return with_context("--device " + printable(device),
                      [&] { return device_called(device, default_gpu); });
}

void add_model_to(CLI::App& command, std::string& model) {
  command.add_option("MODEL", model, "Hugging Face folder, run directory or checkpoint")
      ->required();
}

void add_number(CLI::App& command, const char* name, std::int64_t& value, const std::string& help,
                std::int64_t lowest, std::int64_t highest) {
  command.add_option(name, value, help)->check(CLI::Range(lowest, highest))->capture_default_str();
}

void add_number(CLI::App& command, const char* name, std::optional<std::int64_t>& value,
                const std::string& help, std::int64_t lowest, std::int64_t highest) {
  command.add_option(name, value, help)->check(CLI::Range(lowest, highest));
}

std::function<void(std::int64_t, std::int64_t)> progress_of(const char* unit, Log& log) {
  return [unit, &log, bar = std::shared_ptr<Progress>()](std::int64_t done,
                                                         std::int64_t total) mutable {
    if (!bar) bar = std::make_shared<Progress>(unit, 0, total, log);
    bar->update(done, "", done == total);
  };
}

namespace {

enum ExitCode { done = 0, internal_error = 1, input_error = 2, interrupted = 130 };

/// CLI11 reads an argument in brackets, like the text "[MASK]" or a file's name, as a list. A space
/// in front of it prevents that, and every option removes the space (without_guard).
std::string with_guard(const std::string& word) {
  return word.starts_with('[') && word.ends_with(']') ? " " + word : word;
}

std::string without_guard(const std::string& word) {
  return word.starts_with(" [") && word.ends_with(']') ? word.substr(1) : word;
}

int fail(const Failure& failure) {
  // fmt::print would throw if standard error cannot be written.
  if (!failure.message.empty()) std::fputs(("nystrom: " + failure.message + "\n").c_str(), stderr);
  switch (failure.kind) {
    case FailureKind::interrupted: return interrupted;
    case FailureKind::input: return input_error;
    case FailureKind::internal: break;
  }
  return internal_error;
}

std::string listed(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Throws an InputError if the first argument is neither a command nor an option. CLI11 would only
/// report a missing subcommand.
void check_command(const CLI::App& app, const std::vector<Command>& commands, int argc,
                   char** argv) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  require_input(argc > 1, "no command given; expected one of {}; see nystrom --help",
                listed(names));
  const std::string_view argument = argv[1];
  const std::string word(
      argument.substr(0, argument.starts_with("--") ? argument.find('=') : argument.npos));
  const bool known = std::find(names.begin(), names.end(), word) != names.end() ||
                     app.get_option_no_throw(word) != nullptr;
  require_input(known || word.starts_with('-'),
                "unknown command {}{}; expected one of {}; see nystrom --help", printable(word),
                did_you_mean(word, names), listed(names));
  require_input(known, "unknown option {}; see nystrom --help", printable(word));
}

/// A hint at an option that may have taken what was meant as an argument; empty if there is none.
std::string hint_at_taken_words(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (!option->get_positional() && option->get_allow_extra_args() &&
        std::cmp_greater(option->results().size(), option->get_items_expected_min()))
      return fmt::format("; {} takes the words behind it: put arguments in front of it",
                         option->get_name());
  return "";
}

/// The message for a command line that CLI11 cannot parse. `command` is null if no command was
/// recognized. An unknown option takes precedence, because it may cause the other errors.
std::string parse_message(const CLI::ParseError& error, const CLI::App* command) {
  std::string words = command ? "nystrom " + command->get_name() : "nystrom";
  while (command && !command->get_subcommands().empty()) {  // descends to the innermost subcommand
    command = command->get_subcommands().front();
    words += " " + command->get_name();
  }
  const std::string help = words + " --help";
  std::vector<std::string> extras = command ? command->remaining() : std::vector<std::string>{};
  std::erase(extras, "--");  // which ends the options, and remains where one of them is wrong
  if (extras.empty())
    return fmt::format("{}{}; see {}", printable(error.what(), std::string::npos),
                       command ? hint_at_taken_words(*command) : "", help);
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* inner : command->get_subcommands({})) names.push_back(inner->get_name());
  const std::string& first = extras.front();
  return fmt::format("{} {}{}; see {}",
                     first.starts_with('-') ? "unknown option" : "unexpected argument",
                     printable(first), did_you_mean(first, names), help);
}

/// Gives those of the descriptors 0, 1 and 2 that the caller closed to /dev/null, where their use
/// still fails: the next file would get the number, and with it what is printed.
void fill_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0)
      std::ignore = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/// Restarts the program with GOMP_SPINCOUNT=1000, unless the environment has a wait policy. By
/// default, waiting OpenMP threads spin for milliseconds. On a busy machine they thus keep each
/// other from the processors. OpenMP reads the variable before main, so only a restart sets it.
void restart_with_short_spin(char** argv) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"})
    if (std::getenv(name)) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 1);
  ::execv("/proc/self/exe", argv);  // returns only if it fails; the program then works as it is
}

/// Lets the program end with the process that started it, where that gives its number: Python that
/// is killed, as a notebook's kernel at its restart, cannot end it.
void end_with_parent() {
  const char* parent = std::getenv("NYSTROM_ENDS_WITH");
  if (!parent) return;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(::getppid()) != parent) std::_Exit(interrupted);  // it has ended before
  ::unsetenv("NYSTROM_ENDS_WITH");  // which is not for the processes that this one starts
}

/// Declares --completion, which prints the script and ends the program, like --version.
void add_completion_option(CLI::App& app) {
  const auto print = [](const std::string& shell) {
    require_input(std::ranges::find(completion_shells, shell) != completion_shells.end(),
                  "--completion {}: unknown shell; expected {}", printable(shell, 40),
                  fmt::join(completion_shells, ", "));
    fmt::print("{}", completion(shell));
    throw CLI::Success();
  };
  app.add_option_function<std::string>("--completion", print,
                                       "print the completion script of a shell")
      ->type_name("{bash,zsh,fish}")
      ->trigger_on_parse();
}

/// Declares --man, which prints the manual page and ends the program.
void add_man_option(CLI::App& app) {
  const auto print = [&app] {
    fmt::print("{}", man_page(app));
    throw CLI::Success();
  };
  app.add_flag_callback("--man", print, "print the manual page: nystrom --man | man -l -")
      ->trigger_on_parse();
}

/// Waits in a process other than rank 0, so that an error of all is told once, by rank 0. The
/// launcher ends this process meanwhile: mpirun kills after a second what did not heed its SIGTERM,
/// and a busy machine takes longer.
void let_first_speak(std::chrono::seconds longest) { std::this_thread::sleep_for(longest); }

/// Throws an InputError if a launcher started several processes: each of them would print the
/// results and write the same files.
void require_one_process(const std::vector<Command>& commands, const std::string& name) {
  const StartedAs place = started_as();
  if (place.size <= 1) return;
  std::vector<std::string> spread;
  for (const Command& command : commands) {
    if (command.spreads) spread.push_back(command.app->get_name());
  }
  // Rank 0 surely ends, but perhaps has not begun. Nothing may end a process that has WORLD_SIZE
  // alone: it may be left over, and a pod's rank 0 is elsewhere.
  if (place.rank > 0 && place.told_by != std::vector<std::string>{"WORLD_SIZE"})
    let_first_speak(std::chrono::seconds(20));
  throw InputError(
      fmt::format("{} works in one process, and {} were started; start it without mpirun, srun or "
                  "torchrun, or unset {} (in several work {})",
                  name, place.size, listed(place.told_by), listed(spread)));
}

/// Why a text is no decimal whole number, else empty: CLI11 reads 010 as 8.
std::string check_decimal(const std::string& text) {
  const std::string digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool decimal = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos &&
                       (digits[0] != '0' || digits.size() == 1);
  return decimal ? "" : "'" + printable(text, 40) + "' is no decimal whole number";
}

/// Lets all options read their words as we do.
void correct_options(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT") || type.starts_with("UINT"))
      option->transform(CLI::Validator(check_decimal, ""));  // comes before the range
    if (option->get_items_expected_max() > 0) option->transform(without_guard);
  }
  for (CLI::App* inner : app.get_subcommands({})) correct_options(*inner);
}

/// Throws an InputError if what was printed is lost.
void require_written() {
  std::cout.flush();
  require_input(std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0,
                "standard output: cannot write; is there space on the device?");
}

/// Throws an InputError for an option or argument that is empty, such as a variable of a script
/// that is not set. Commands read lists of texts themselves.
void refuse_empty(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const bool texts = option->get_lnames().empty() && option->get_items_expected_max() > 1;
    const std::vector<std::string>& given = option->results();
    require_input(texts || option->count() == 0 || std::ranges::find(given, "") == given.end(),
                  "{} is empty; give a value{}", option->get_name(),
                  option->get_lnames().empty() ? "" : ", or leave it out");
  }
  for (const CLI::App* inner : command.get_subcommands()) refuse_empty(*inner);
}

int run(int argc, char** argv) {
  CLI::App app("nystrom: train, run and export Nyströmformer encoders, whose attention costs O(n)");
  app.set_version_flag("--version", version_text);
  add_completion_option(app);
  add_man_option(app);
  app.require_subcommand(1);
  app.formatter(help_formatter());
  app.footer("nystrom COMMAND --help shows a command's options and an example.");
  const std::vector<Command> commands = {
      add_doctor_command(app),   add_config_command(app),   add_check_command(app),
      add_prepare_command(app),  add_pretrain_command(app), add_finetune_command(app),
      add_evaluate_command(app), add_predict_command(app),  add_embed_command(app),
      add_search_command(app),   add_export_command(app),   add_extend_command(app),
      add_convert_command(app),  add_listops_command(app),  add_info_command(app),
      add_forward_command(app),  add_bench_command(app),    add_approximation_command(app),
      add_report_command(app),   add_cache_command(app)};
  correct_options(app);
  if (argc > 1 && argv[1] == std::string_view("--complete")) {  // asked by the scripts of shells
    for (const std::string& word : candidates(app, {argv + 2, argv + argc}))
      fmt::print("{}\n", word);
    return done;
  }
  check_command(app, commands, argc, argv);
  read_piped_inputs({argv, argv + argc});
  try {
    std::vector<std::string> words(argv, argv + argc);
    std::vector<const char*> arguments;
    for (std::string& word : words) arguments.push_back((word = with_guard(word)).c_str());
    app.parse(argc, arguments.data());
  } catch (const CLI::Success& success) {  // --help, --version, --completion, --man
    const int code = app.exit(success);
    require_written();
    return code;
  } catch (const CLI::ParseError& error) {
    const auto chosen = std::find_if(commands.begin(), commands.end(),
                                     [](const Command& command) { return command.app->parsed(); });
    return fail({FailureKind::input,
                 parse_message(error, chosen == commands.end() ? nullptr : chosen->app)});
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    refuse_empty(*command.app);
    if (!command.spreads) require_one_process(commands, command.app->get_name());
    command.run();
  }
  require_written();
  return done;
}

}  // namespace

void with_processes(const CommonOptions& options,
                    const std::function<void(Communicator&, Device)>& work) {
  constexpr std::chrono::seconds three_seconds(3);
  const bool on_gpus = cuda::built_in() && options.device.starts_with("cuda");
  const std::unique_ptr<Communicator> communicator = connect_processes(on_gpus);
  const auto require_own_gpu = [&] {
    require_input(!communicator->is_connected() || !options.device.starts_with("cuda:"),
                  "--device {}: a process that mpirun, srun or torchrun started has the GPU of its "
                  "number; give --device cuda",
                  options.device);
  };
  if (communicator->size() == 1) {
    require_own_gpu();
    return work(*communicator, options.apply());
  }
  const auto work_or_stop = [&] {
    try {
      require_own_gpu();
      work(*communicator, options.apply(gpu_of_process(communicator->local_rank())));
    } catch (const Interrupted&) {
      // Told before the processes part: the first one that ends lets the launcher end the others.
      if (communicator->is_first()) fail(current_failure());
      communicator->barrier();
      throw Interrupted("");
    }
  };
  try {
    work_or_stop();
  } catch (const Interrupted&) {
    throw;
  } catch (const ProcessLost&) {
    communicator->end_all(fail(current_failure()));
  } catch (...) {
    Failure failure = current_failure();
    if (!communicator->is_first()) let_first_speak(three_seconds);
    failure.message =
        fmt::format("{}: {}", communicator->name_of(communicator->rank()), failure.message);
    communicator->end_all(fail(failure));
  }
}

}  // namespace nystrom

int main(int argc, char** argv) {
  using namespace nystrom;
  fill_standard_descriptors();
  restart_with_short_spin(argv);
  end_with_parent();
  ::prctl(PR_SET_NAME, "nystrom");  // after a restart ps and top would show "exe"
  std::signal(SIGXFSZ, SIG_IGN);    // a write beyond a limit of file sizes fails, as on a full disk
  // A command has nothing to save until it constructs StopSignals. Ignored signals stay ignored.
  for (const int signal : stop_signals)
    if (std::signal(signal, [](int) { std::_Exit(interrupted); }) == SIG_IGN)
      std::signal(signal, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (...) {
    const int code = fail(current_failure());
    if (code != interrupted) return code;
    std::fflush(nullptr);
    // No destructors: a thread of a library may still be running (train_sentencepiece).
    std::_Exit(code);
  }
}
