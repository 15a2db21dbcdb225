// nystrom embed: write one vector for each text.
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/cli/embedding_settings.h"
#include "train/cli/text_arguments.h"
#include "train/objectives/text_embedder.h"
#include "train/objectives/vector_file.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

struct EmbedOptions {
  CommonOptions common;
  EmbeddingFlags flags;
  std::string model, output;
  DType dtype = DType::f32, compute_dtype = DType::f32;
  PromptKind prompt = PromptKind::document;
  TextArguments arguments;
  bool skip_bad = false;
};

/// Calls use(example) for all texts. Returns what is to be known of the files, with --skip-bad also
/// the rows that were left out.
std::vector<std::string> read_texts(const EmbedOptions& options, const VectorModel& model,
                                    const ExampleUse& use) {
  SkippedRows skipped;
  const auto leave_out = [&](const BadRow& error) {
    if (!options.skip_bad)
      throw InputError(std::string(error.what()) +
                       "; --skip-bad leaves out such a row and goes on");
    if (skipped.count++ == 0) skipped.first = error.what();
  };
  std::int64_t read = 0;
  const auto count_and_use = [&](Example&& example) {
    ++read;
    use(std::move(example));
  };
  skipped.notes = read_arguments(options.arguments, options.common.overrides, model.task,
                                 count_and_use, leave_out);
  require_input(read > 0 || skipped.count == 0, "{}",
                describe_unreadable(options.arguments.texts, skipped));
  return warnings_of(skipped);
}

/// Embeds the texts behind the first `known`, and warns of what is to be known of the files. Throws
/// an InputError where they are others than those of `checksum`, if that is not empty.
void embed_texts(const EmbedOptions& options, const VectorModel& model, TextBlocks& blocks,
                 std::int64_t known, const std::string& checksum, Log& log) {
  std::int64_t number = 0;
  Checksum of_all;
  const auto notes = read_texts(options, model, [&](Example&& example) {
    add_example(of_all, example);
    if (number++ >= known) blocks.add(std::move(example));
  });
  require_input(number >= known && (checksum.empty() || of_all.hex() == checksum),
                "the texts changed while being read; remove {0}.partial and {0}.partial.json, and "
                "start again once they stay",
                printable_path(options.output));
  blocks.finish();
  for (const std::string& note : notes) log.warn(note);
}

void print_vectors(const EmbedOptions& options, const VectorModel& model, TextEmbedder& embedder,
                   Log& log) {
  const auto width = static_cast<std::size_t>(embedder.width());
  TextBlocks blocks(embedder, [&](const std::vector<Example>& examples, const Tensor& vectors) {
    const Tensor rounded = rounded_vectors(vectors, options.dtype).cast(DType::f32);
    for (std::size_t i = 0; i < examples.size(); ++i)
      fmt::print("{}", vector_line(examples[i], {rounded.data<float>() + i * width, width}));
  });
  embed_texts(options, model, blocks, 0, "", log);
}

/// The checksum of all that the model computes with.
std::string model_checksum(const VectorModel& model) {
  return text_checksum(model_hash(*model.model) + model.tokenizer->definition());
}

/// Reads all texts once: how many there are, and their checksum.
VectorJob make_job(const EmbedOptions& options, const VectorModel& model,
                   const TextEmbedder& embedder) {
  const EmbeddingOptions& how = embedder.options();
  VectorJob job;
  job.model = model_checksum(model);
  job.options = fmt::format(
      "pooling {}, normalize {}, dimensions {}, dtype {}, compute-dtype {}, batch-size {}, "
      "sequence_length {}, prompt {}",
      enum_name(how.pooling), how.normalize, embedder.width(), enum_name(options.dtype),
      enum_name(options.compute_dtype), how.batch_size, how.sequence_length, how.prompt);
  job.matrix = {0, embedder.width(), options.dtype};
  Checksum checksum;
  read_texts(options, model, [&](const Example& example) {
    add_example(checksum, example);
    ++job.matrix.rows;
  });
  job.texts = checksum.hex();
  return job;
}

void write_vectors(const EmbedOptions& options, const VectorModel& model, TextEmbedder& embedder,
                   Log& log) {
  const VectorJob job = make_job(options, model, embedder);
  VectorWriter writer(options.output, job);
  const std::int64_t total = writer.rows();
  if (writer.done() > 0)
    log.say(fmt::format("going on after {} of {} texts", writer.done(), total));
  const EndAtSignals stop("stopped; the same command goes on");
  Progress progress("text", writer.done(), total, log);
  TextBlocks blocks(embedder, [&](const std::vector<Example>& examples, const Tensor& vectors) {
    writer.add(examples, vectors);
    progress.update(writer.done(), "", writer.done() == total);
  });
  embed_texts(options, model, blocks, writer.done(), job.texts, log);
  writer.finish();
  log.say(fmt::format("{}: {} vectors of {} numbers", printable_path(options.output), total,
                      embedder.width()));
}

/// Throws an InputError for an output among the files that --document reads.
void require_outside(const EmbedOptions& options) {
  namespace fs = std::filesystem;
  if (!options.arguments.document) return;
  const fs::path output = fs::weakly_canonical(options.output);
  for (const std::string& text : options.arguments.texts) {
    if (!fs::is_directory(text)) continue;
    const fs::path relative = output.lexically_relative(fs::canonical(text));
    require_input(relative.empty() || *relative.begin() == "..",
                  "{}: lies in {}, whose files are the texts; give --output a place outside of it",
                  printable_path(options.output), printable(text));
  }
}

void run(const EmbedOptions& options, Device device, Log& log) {
  check_texts(options.arguments);
  if (!options.output.empty()) {
    vector_format_of(options.output);
    require_new_file(options.output);
    require_outside(options);
  }
  const VectorModel model =
      open_vector_model(options.model, options.common.overrides, TaskKind::classification,
                        options.compute_dtype, device, log);
  TextEmbedder embedder = model.embedder(options.flags, options.prompt);
  if (options.output.empty())
    print_vectors(options, model, embedder, log);
  else
    write_vectors(options, model, embedder, log);
  say_note(embedder, log);
}

}  // namespace

Command add_embed_command(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  auto* command = app.add_subcommand("embed", "Write one vector for each text, for search");
  command->footer(
      "Texts, files and folders are read as by nystrom predict: a file as its ending says, else "
      "line by line; --set task.columns.text=NAME\n"
      "names the column of a table. Texts longer than data.sequence_length are read in windows; "
      "their vector is the mean over these.\n"
      "The same command completes an interrupted --output.\n\n"
      "Examples:\n  nystrom embed runs/mine corpus.txt --output corpus.npy\n  nystrom embed "
      "runs/mine papers/ --document --output papers.jsonl --dtype f16\n"
      "  nystrom embed runs/mine \"Who built the bridge?\" --prompt query");
  add_model_to(*command, options->model);
  command->add_option("TEXT", options->arguments.texts, "texts, files, or folders with --document")
      ->required();
  command->add_option("--output", options->output,
                      "file to write: .npy, .safetensors or .jsonl; default: JSON Lines on the "
                      "standard output");
  options->flags.add_to(*command);
  add_choice(*command, "--dtype", options->dtype, "type of the vectors that are written",
             {"f32", "f16"});
  add_choice(*command, "--prompt", options->prompt,
             "the model's prompt before each text: model.embedding.query_prompt or "
             "document_prompt");
  add_choice(*command, "--compute-dtype", options->compute_dtype, inference_dtype_help,
             dtype_names);
  options->arguments.add_flags_to(*command);
  command->add_flag("--skip-bad", options->skip_bad,
                    "leave out rows that cannot be read, with a warning");
  options->common.add_to(*command);
  return alone(command, options, run);
}

}  // namespace nystrom
