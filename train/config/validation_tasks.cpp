// The rules of runs with a task: of fine-tuning, and of pretraining on a task's inputs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "train/config/validation.h"

namespace nystrom {
namespace {

/// Reports options of embedding_loss that its loss does not use, or cannot.
void check_embedding_loss(const RunConfig& config, Problems& found) {
  const EmbeddingLossOptions& loss = config.embedding_loss;
  const EmbeddingLossOptions defaults;
  const bool ranking = loss.name == EmbeddingLoss::multiple_negatives_ranking,
             triplet = loss.name == EmbeddingLoss::triplet,
             scaled =
                 ranking || loss.name == EmbeddingLoss::cosent || loss.name == EmbeddingLoss::angle;
  const auto unused = [&](bool used, bool is_set, const std::string& option) {
    if (!used && is_set)
      add_problem(found, {"embedding_loss." + option, "embedding_loss.name"},
                  "embedding_loss.{}: the loss {} has no such option; leave it "
                  "out, or choose another loss",
                  option, enum_name(loss.name));
  };
  unused(ranking, loss.symmetric, "symmetric");
  unused(ranking, loss.false_negative_margin.has_value(), "false_negative_margin");
  unused(scaled, loss.temperature != defaults.temperature, "temperature");
  unused(triplet, loss.triplet_margin.has_value(), "triplet_margin");
  unused(triplet, loss.triplet_distance != defaults.triplet_distance, "triplet_distance");
  const bool unit = config.model.embedding.normalize || !loss.matryoshka_dimensions.empty() ||
                    loss.triplet_distance == TripletDistance::cosine;
  if (triplet && unit && loss.triplet_margin.value_or(0) >= 2)
    add_problem(found, {"embedding_loss.triplet_margin"},
                "embedding_loss.triplet_margin {}: distances of vectors of length "
                "1 differ by at most 2; choose less, for example 0.5",
                *loss.triplet_margin);
  for (const std::int64_t dimensions : loss.matryoshka_dimensions) {
    if (dimensions > config.model.vector_width())
      add_problem(found, {"embedding_loss.matryoshka_dimensions", "model.embedding.projection"},
                  "embedding_loss.matryoshka_dimensions has {}, and vectors have "
                  "{} dimensions; leave it out",
                  dimensions, config.model.vector_width());
  }
}

/// Reports `model.pairs: towers` for a task without pairs of texts.
void check_towers(const RunConfig& config, Problems& found) {
  if (config.model.pairs != Pairs::towers || !problems(config.task).empty()) return;
  const TaskConfig task = resolve_task(config.task);
  if (*task.kind != TaskKind::classification && *task.kind != TaskKind::regression) {
    add_problem(found, {"model.pairs", "task.kind"},
                "model.pairs towers: a task of kind {} is read as one sequence; set it to joined",
                enum_name(*task.kind));
  } else if (!task.columns.pair) {
    add_problem(
        found, {"model.pairs", "task.columns.pair"},
        "model.pairs towers: task.columns.pair is null; name the column of the second text, or "
        "set model.pairs to joined");
  }
}

/// Reports files of texts beside those of a task.
void check_texts_beside_task(const RunConfig& config, Problems& found) {
  std::vector<std::string> options = {"data.train", "data.validation", "data.text_column"};
  // Beside data.train it may be the default.
  if (config.data.train.empty()) options.emplace_back("data.validation_fraction");
  refuse_set(config, options, "text files to pretrain on, and section task names the files here",
             found);
}

/// Reports a task whose validation set is missing, or named twice.
void check_held_out(const TaskConfig& task, const char* purpose, Problems& found) {
  if (task.validation.empty() && !task.validation_fraction && !has_folds(task))
    add_problem(found, {"task.validation", "task.validation_fraction"},
                "task.validation is empty; name held-out files{}, or set "
                "task.validation_fraction, such as 0.1",
                purpose);
  if (!task.validation.empty() && task.validation_fraction)
    add_problem(
        found, {"task.validation_fraction", "task.validation"},
        "task.validation_fraction and task.validation exclude each other; give one of them");
}

}  // namespace

Problems validate_inputs(const RunConfig& config) {
  Problems found = problems(config.task);
  if (!found.empty()) return found;
  const TaskConfig& task = config.task;
  const TaskKind kind = *resolve_task(task).kind;
  if (task.train.empty())
    add_problem(found, {"task.train"}, "task.train is empty; name the files whose inputs to read");
  check_held_out(task, "", found);
  const auto is_folder = [](const std::string& file) {
    return std::filesystem::is_directory(file);
  };
  if (kind == TaskKind::embeddings && std::ranges::any_of(task.validation, is_folder))
    add_problem(found, {"task.validation"},
                "task.validation names a folder of queries, and pretraining measures texts; "
                "leave task.validation out and set task.validation_fraction to 0.1");
  check_texts_beside_task(config, found);
  if (kind != TaskKind::features && !config.start.from && !config.tokenizer.path &&
      !config.tokenizer.builtin)
    add_problem(found, {"tokenizer.path", "tokenizer.builtin", "model.from"},
                "pretraining on the inputs of a task trains no tokenizer; name one in "
                "tokenizer.path or tokenizer.builtin, or start from a model");
  return found;
}

Problems validate_masked_features(const RunConfig& config) {
  Problems found;
  RunConfig unread = config;
  unread.data.sequence_length = DataConfig{}.sequence_length;
  unread.masking.probability = MaskingConfig{}.probability;
  refuse_set(
      unread,
      {"tokenizer.", "data.", "pretraining.objective", "masking.", "distillation.teacher",
       "embedding_loss.", "training.z_loss", "training.batch_schedule", "logging.fill_masks"},
      "pretraining on texts, and task.kind is features", found);
  if (config.model.embed_dim == 1)
    add_problem(found, {"model.embed_dim"},
                "model.embed_dim is 1, and a row is standardised over its numbers, so that one "
                "alone is always 0; give features of several numbers");
  return found;
}

Problems validate_finetuning(const RunConfig& config) {
  if (!has_task(config))
    return {
        {{"task.recipe", "task.kind"},
         "task names neither recipe nor kind; name one, such as task: {kind: classification, …}"}};
  const bool features = config.task.kind == TaskKind::features;
  const bool has_width = !features || config.model.embed_dim || !config.task.train.empty();
  Problems found = has_width ? validate(config) : Problems();
  if (config.task.train.empty())
    add_problem(found, {"task.train"}, "task.train is empty; name the files to train on");
  if (!has_width) return found;  // the files give it, and the model's rules need it
  check_held_out(config.task, ", which choose the best checkpoint", found);
  refuse_set(config,
             {"pretraining.objective", "distillation.teacher", "masking.", "logging.fill_masks",
              "training.on_loss_spike", "training.z_loss", "training.batch_schedule",
              "data.length_schedule", "data.documents", "data.packing", "data.cross_documents",
              "data.max_unreadable"},
             "pretraining, and a task learns from its labels", found);
  check_texts_beside_task(config, found);
  if (features && !config.model.embed_dim)
    add_problem(found, {"model.embed_dim", "model.norm", "model.positions"},
                "model.embed_dim is null; give the width of the features, with model.norm: pre and "
                "model.positions: none");
  if (features) refuse_set(config, {"tokenizer."}, "texts, and task.kind is features", found);
  if (!features && config.model.embed_dim)
    add_problem(found, {"model.embed_dim"},
                "model.embed_dim is set, but the task reads text; leave it out");
  if (!features && !config.start.from && !config.tokenizer.path && !config.tokenizer.builtin)
    add_problem(
        found, {"model.from", "tokenizer.path"},
        "model.from is null and tokenizer.path too; start from a model, or name a folder with a "
        "tokenizer");
  check_towers(config, found);
  check_embedding_loss(config, found);
  check_groups(config, found);
  check_decay(config, found);
  return found;
}

}  // namespace nystrom
