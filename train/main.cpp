// The program: parses the command line, runs one subcommand, and turns errors into one line and an exit code.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <new>

#include "core/check.h"
#include "core/cpu/parallel.h"
#include "train/commands.h"

namespace nystrom {

void CommonOptions::add_to(CLI::App& app) {
  app.add_option("--set", overrides, "override an option: --set model.attention.num_landmarks=32")->allow_extra_args(false);
  app.add_option("--device", device, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--threads", threads, "CPU threads; 0: one a core")->check(CLI::Range(0, 4096))->capture_default_str();
  app.add_flag("--quiet", quiet, "print nothing but results and errors");
}

void CommonOptions::apply() const {
  if (threads > 0) set_num_threads(threads);
  if (device == "cpu") return;
  require_input(device == "cuda" || device.starts_with("cuda:"), "--device {}: unknown device; expected cpu, cuda or cuda:N", device);
  throw InputError(fmt::format("--device {}: this build of nystrom has no CUDA support; use --device cpu", device));
}

namespace {

enum ExitCode { done = 0, internal_error = 1, input_error = 2 };

int fail(ExitCode code, std::string_view message) {
  fmt::print(stderr, "nystrom: {}\n", message);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app("nystrom: train, run and export Nyströmformer encoders, whose attention costs O(n)");
  app.set_version_flag("--version", "nystrom " NYSTROM_VERSION);
  app.require_subcommand(1);
  app.footer("nystrom COMMAND --help shows a command's options and an example.");
  const std::vector<Command> commands = {add_forward_command(app), add_info_command(app), add_bench_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(input_error, std::string(error.what()) + "; see nystrom --help");
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) command.run();
  }
  return done;
}

}  // namespace
}  // namespace nystrom

int main(int argc, char** argv) {
  using namespace nystrom;
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    return fail(input_error, error.what());
  } catch (const std::bad_alloc&) {
    return fail(input_error, "out of memory; lower the batch size or the sequence length");
  } catch (const std::exception& error) {
    return fail(internal_error, std::string("internal error: ") + error.what());
  }
}
