// nystrom listops: generate the ListOps task of Long Range Arena.
#include "core/base/file_io.h"
#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "data/tasks/listops.h"
#include "train/cli/commands.h"

namespace nystrom {
namespace {

struct ListOpsCommand {
  CommonOptions common;
  std::string folder;
  std::int64_t train = 96000, validation = 2000, test = 2000;
  ListOpsOptions listops;
};

void run(const ListOpsCommand& options, Device, Log& log) {
  ListOpsGenerator generator(options.listops);
  const EndAtSignals stop("stopped; nothing was kept");
  NewFolder folder(require_empty_target(options.folder));
  const std::int64_t all = options.train + options.validation + options.test;
  std::optional<Progress> progress(std::in_place, "sample", 0, all, log);
  std::int64_t done = 0;
  for (const auto& [name, count] :
       {std::pair("train", options.train), {"val", options.validation}, {"test", options.test}}) {
    std::string text = "Source\tTarget\n";
    for (std::int64_t i = 0; i < count; ++i) {
      const ListOpsSample sample = generator.next();
      text += fmt::format("{}\t{}\n", sample.source, sample.target);
      check_interruption();
      ++done;
      progress->update(done, "", done == all);
    }
    write_text_file(folder.path() / fmt::format("basic_{}.tsv", name), text);
  }
  progress.reset();
  folder.commit();
  fmt::print("{}: {} samples to train on, {} to validate, {} to test\n",
             printable_path(options.folder), options.train, options.validation, options.test);
}

}  // namespace

Command add_listops_command(CLI::App& app) {
  auto options = std::make_shared<ListOpsCommand>();
  auto* command = app.add_subcommand(
      "listops",
      "Write the ListOps task of Long Range Arena: nested lists of digits with their values");
  command->footer(
      "Writes basic_train.tsv, basic_val.tsv and basic_test.tsv "
      "with the columns Source and Target, drawn as Long Range Arena's script draws\n"
      "them; no sample occurs twice, "
      "and every value is computed twice, as a check. The same options give the same files.\n\n"
      "Example:\n  nystrom listops listops --seed 1\n  nystrom config lra-listops > my.yaml && "
      "nystrom finetune my.yaml");
  const auto count = [&](const char* name, std::int64_t& value, const char* help,
                         std::int64_t lowest) {
    add_number(*command, name, value, help, lowest, 1 << 30);
  };
  command->add_option("DIR", options->folder, "folder to write; must be new or empty")->required();
  count("--train", options->train, "samples to train on", 1);
  count("--validation", options->validation, "samples to validate", 1);
  count("--test", options->test, "samples to test", 1);
  count("--max-depth", options->listops.max_depth, "nesting depth; a single digit has depth 1", 1);
  count("--max-args", options->listops.max_arguments, "most arguments of a list", 2);
  count("--min-length", options->listops.min_length,
        "an expression has more symbols, parentheses not counted", 0);
  count("--max-length", options->listops.max_length, "an expression has fewer symbols", 2);
  add_number(*command, "--seed", options->listops.seed, "seed of the random numbers", 0,
             std::int64_t{1} << 62);
  options->common.add_to(*command, {.set = false, .device = false});
  return alone(command, options, run);
}

}  // namespace nystrom
