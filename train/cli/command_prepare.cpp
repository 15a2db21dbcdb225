// nystrom prepare: train the tokenizer if the run has none, and tokenize its text into shards.
#include <fmt/ranges.h>

#include "core/check.h"
#include "train/cli/commands.h"
#include "train/distributed/processes.h"
#include "train/objectives/corpus.h"

namespace nystrom {
namespace {

struct PrepareOptions {
  CommonOptions common;
  std::string config;
};

/// "12 documents, 3456 tokens", for each source.
std::string describe(const std::vector<CorpusSource>& sources) {
  std::vector<std::string> texts;
  for (const CorpusSource& source : sources)
    texts.push_back(fmt::format("{}{}{} documents, {} tokens", source.name,
                                source.name.empty() ? "" : ": ", source.tokens->documents(),
                                source.tokens->tokens()));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void run(const PrepareOptions& options, Communicator& communicator) {
  const RunSpec spec =
      resolve(config_file(options.config), options.common.overrides, RunKind::pretraining);
  require_input(!reads_features(spec.options),
                "task.kind features: there is nothing to prepare; nystrom pretrain reads the files "
                "themselves");
  Log log(options.common.quiet);
  if (!communicator.is_first()) log.mute();
  RunConfig shared = spec.options;  // the texts are compared by what they hold
  shared.data.train = shared.data.validation = {};
  communicator.require_same_options(to_yaml(shared));
  for (const std::string& line : shared_file_warnings(spec.options)) log.warn(line);
  const Corpus corpus = prepare_corpus(spec, log, communicator);
  warn_of_unknown(corpus, log);
  const auto& builtin = spec.options.tokenizer.builtin;
  log.say(fmt::format("tokenizer of {} pieces: {}", corpus.tokenizer->vocab_size(),
                      builtin ? enum_name(*builtin) : corpus.tokenizer_folder.string()));
  log.say(fmt::format("training: {}; validation: {}: {}", describe(corpus.train),
                      describe(corpus.validation), corpus.token_folder.string()));
}

}  // namespace

Command add_prepare_command(CLI::App& app) {
  auto options = std::make_shared<PrepareOptions>();
  auto* command = app.add_subcommand(
      "prepare",
      "Train the tokenizer if the run needs one, and tokenize the text of a run into shards");
  command->footer(
      "Started by mpirun or srun, the processes tokenize together.\n\nExample:\n  nystrom prepare "
      "my.yaml");
  command->add_option("CONFIG", options->config, "YAML file of the run")->required();
  options->common.add_to(*command, {.device = false});
  return {command,
          [options] {
            const auto work = [&](Communicator& communicator, Device) {
              run(*options, communicator);
            };
            if (can_connect_over_mpi()) return with_processes(options->common, work);
            Communicator alone;
            work(alone, options->common.apply());
          },
          true};
}

}  // namespace nystrom
