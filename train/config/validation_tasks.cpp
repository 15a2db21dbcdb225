// The rules of runs with a task: of fine-tuning, and of pretraining on a task's inputs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "train/config/config_io.h"
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

/// Reports options that only pretraining has.
void check_for_pretraining_alone(const RunConfig& config, Problems& found) {
  if (config.pretraining != PretrainingConfig{})
    add_problem(found, {"pretraining.objective"},
                "pretraining.objective and what belongs to it are for nystrom pretrain; a "
                "task learns from its labels: leave them out");
  if (config.distillation.teacher)
    add_problem(
        found, {"distillation.teacher"},
        "distillation.teacher is for pretraining; a task learns from its labels: leave it out");
  if (config.training.on_loss_spike == OnLossSpike::roll_back)
    add_problem(
        found, {"training.on_loss_spike"},
        "training.on_loss_spike roll_back is for pretraining; the loss of a task spikes at a "
        "single wrong answer");
  if (config.training.z_loss > 0)
    add_problem(found, {"training.z_loss"},
                "training.z_loss is for pretraining; a task has few classes: leave it out");
  const DataConfig &data = config.data, usual;
  const MaskingConfig &masking = config.masking, plain;
  const std::vector<std::string>& filled = config.logging.fill_masks;
  for (const auto& [option, is_given] :
       {std::pair("masking.probability", masking.probability != plain.probability),
        {"masking.mask", masking.mask != plain.mask},
        {"masking.random", masking.random != plain.random},
        {"masking.whole_word", masking.whole_word != plain.whole_word},
        {"masking.span", masking.span != plain.span},
        {"masking.sentence_order", masking.sentence_order != plain.sentence_order},
        {"logging.fill_masks", !filled.empty() && filled != LoggingConfig{}.fill_masks},
        {"data.documents", data.documents != usual.documents},
        {"data.packing", data.packing != usual.packing},
        {"data.cross_documents", data.cross_documents != usual.cross_documents},
        {"data.max_unreadable", data.max_unreadable != usual.max_unreadable}})
    if (is_given)
      add_problem(found, {option}, "{} is for pretraining; a task has examples: leave it out",
                  option);
}

/// Reports files of texts beside those of a task.
void check_texts_beside_task(const DataConfig& data, Problems& found) {
  for (const auto& [option, is_given] :
       {std::pair("data.train", !data.train.empty()),
        {"data.validation", !data.validation.empty()},
        // With data.train it may be the default.
        {"data.validation_fraction", data.train.empty() && data.validation_fraction},
        {"data.text_column", data.text_column != DataConfig{}.text_column}})
    if (is_given)
      add_problem(
          found, {option, "task.train"},
          "{} is of text files to pretrain on, and section task names the files here; leave it "
          "out",
          option);
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

/// Whether pretraining on features reads an option, or one that is not there.
bool is_read(const std::string& option) {
  constexpr std::array unread = {
      "tokenizer.",        "data.",           "pretraining.",    "masking.",
      "distillation.",     "embedding_loss.", "training.z_loss", "training.batch_schedule",
      "logging.fill_masks"};
  if (option == "data.sequence_length" || option == "masking.probability") return true;
  return std::ranges::none_of(unread, [&](const char* part) { return option.starts_with(part); });
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
  check_texts_beside_task(config.data, found);
  if (kind != TaskKind::features && !config.start.from && !config.tokenizer.path &&
      !config.tokenizer.builtin)
    add_problem(found, {"tokenizer.path", "tokenizer.builtin", "model.from"},
                "pretraining on the inputs of a task trains no tokenizer; name one in "
                "tokenizer.path or tokenizer.builtin, or start from a model");
  return found;
}

Problems validate_masked_features(const RunConfig& config) {
  Problems found;
  std::map<std::string, std::string> defaults;
  for (auto& [option, value] : option_values({})) defaults[option] = value;
  for (const auto& [option, value] : option_values(config))
    if (!is_read(option) && value != defaults[option])
      add_problem(found, {option, "task.kind"},
                  "{} is for pretraining on texts, and task.kind is features; leave it out",
                  option);
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
  check_for_pretraining_alone(config, found);
  check_texts_beside_task(config.data, found);
  if (features && !config.model.embed_dim)
    add_problem(found, {"model.embed_dim", "model.norm", "model.positions"},
                "model.embed_dim is null; give the width of the features, with model.norm: pre and "
                "model.positions: none");
  if (features && config.tokenizer != TokenizerConfig{})
    add_problem(found, {"tokenizer.path", "tokenizer.builtin", "task.kind"},
                "section tokenizer is of texts, and task.kind is features; leave it out");
  if (!features && config.model.embed_dim)
    add_problem(found, {"model.embed_dim"},
                "model.embed_dim is set, but the task reads text; leave it out");
  if (!features && !config.start.from && !config.tokenizer.path && !config.tokenizer.builtin)
    add_problem(
        found, {"model.from", "tokenizer.path"},
        "model.from is null and tokenizer.path too; start from a model, or name a folder with a "
        "tokenizer");
  const auto refuse_schedule = [&](const char* option, const StepSchedule& schedule,
                                   const char* constant) {
    if (!schedule.empty())
      add_problem(found, {option}, "{} is for pretraining; a task has {}: leave it out", option,
                  constant);
  };
  refuse_schedule("data.length_schedule", config.data.length_schedule, "data.sequence_length");
  refuse_schedule("training.batch_schedule", config.training.batch_schedule, "training.batch_size");
  check_towers(config, found);
  check_embedding_loss(config, found);
  check_groups(config, found);
  check_decay(config, found);
  return found;
}

}  // namespace nystrom
