#include "train/cli/embedding_settings.h"

#include <set>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/config/config_io.h"
#include "train/objectives/task_settings.h"
#include "train/state/sentence_modules.h"

namespace nystrom {

void EmbeddingFlags::add_to(CLI::App& command) {
  add_choice(command, "--pooling", pooling,
             "mean of the tokens, the first token (cls), or mean of the landmarks; default: "
             "the model's own");
  auto* on = command.add_flag("--normalize", normalize,
                              "divide each vector by its length; default: as the model says");
  command.add_flag("--no-normalize", no_normalize, "leave vectors as they are")->excludes(on);
  add_dimensions_to(command);
  add_number(command, "--batch", batch_size, "texts computed at once; long ones fewer", 1, 1 << 16);
}

void EmbeddingFlags::add_dimensions_to(CLI::App& command) {
  add_number(command, "--dimensions", dimensions,
             "keep the first N numbers of each vector, for models trained so (Matryoshka)", 1,
             1 << 24);
}

TextEmbedder VectorModel::embedder(const EmbeddingFlags& flags, PromptKind prompt,
                                   Communicator* communicator) const {
  EmbeddingOptions options = embedding_options(folder.config, prompt, sequence_length);
  options.pooling = flags.pooling.value_or(options.pooling);
  if (flags.normalize || flags.no_normalize) options.normalize = flags.normalize;
  options.dimensions = flags.dimensions;
  options.batch_size = flags.batch_size;
  return {*model, *tokenizer, options, communicator};
}

EmbeddingFlags VectorModel::for_ranking(EmbeddingFlags flags) const {
  const Similarity similarity = folder.config.embedding.similarity;
  if (flags.normalize) return flags;
  require_input(
      !flags.no_normalize || similarity == Similarity::dot,
      "--no-normalize: model.embedding.similarity is {}; leave it out, or rank by products "
      "with --set model.embedding.similarity=dot",
      enum_name(similarity));
  flags.normalize = similarity == Similarity::cosine;
  require_ranked(similarity, printable_path(folder.path));
  return flags;
}

void say_note(const TextEmbedder& embedder, Log& log) {
  if (const std::string note = embedder.note(); !note.empty()) log.say("note: " + note);
}

VectorModel open_vector_model(const std::string& model, const std::vector<std::string>& overrides,
                              TaskKind kind, DType dtype, Device device, Log& log) {
  const SplitOverrides split(overrides, {"task", "data"});
  VectorModel result;
  result.folder = open_model(model, split.model, log, HeadUse::discarded);
  const ModelFolder& folder = result.folder;
  const std::string name = printable_path(folder.path);
  require_vectors(folder);
  require_input(!folder.config.embed_dim, "{}: reads features, and vectors are made of texts",
                name);
  RunConfig config;
  config.model = folder.config;
  // A model of one length would refuse other values of data.sequence_length here.
  config.model.attention.semantics = Semantics::nystrom;
  config.data.sequence_length = trained_length(folder);
  config.task.kind = kind;
  const std::set<std::string> named = options_in(split.run);
  require_input(!named.contains("task.windows") && !named.contains("task.stride"),
                "--set task.windows, task.stride: the vector of a long text is the mean over "
                "windows; leave them out");
  config = override_config(config, "default settings", split.run);
  if (!config.task.columns.text && !config.task.recipe)
    config.task.columns.text = config.data.text_column;
  require_input(config.task.kind == kind || config.task.recipe,
                "--set task.kind={}: vectors are made of single texts; leave it out",
                config.task.kind ? enum_name(*config.task.kind) : "null");
  result.task = resolve_task(config.task);
  result.sequence_length = config.data.sequence_length;
  result.tokenizer = require_tokenizer_of(folder);
  result.model = load_model(folder, dtype, StoreMode::inference, device);
  return result;
}

}  // namespace nystrom
