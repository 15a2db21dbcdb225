// The configuration of a run: one struct for each section of its YAML file. A new section needs a
// struct, its `fields` function, and one line in the `fields` function of RunConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/dtype.h"
#include "data/pretraining/masking.h"
#include "data/tasks/task_config.h"
#include "data/text/text.h"
#include "data/tokenizers/builtin_tokenizer.h"
#include "nn/embedding_loss_options.h"
#include "nn/model_config.h"
#include "train/config/text_source.h"
#include "train/optim/options.h"

namespace nystrom {

/// The dtypes in which a model can compute: bf16, f16, f32, f64.
std::span<const EnumName<DType>> enum_names(DType);

enum class TokenizerKind { unigram, bpe };
/// The pieces of documents in a sequence's place: one, or several that do not see each other.
enum class SequencePacking { alone, isolated };

/// The pieces of a tokenizer whose configuration names no number, at most.
inline constexpr std::int64_t most_pieces_by_default = 30000;

struct TokenizerTrainingConfig {
  TokenizerKind kind = TokenizerKind::unigram;
  std::optional<std::int64_t> vocab_size;
  bool lower_case = true;
  bool strip_accents = false;
  bool operator==(const TokenizerTrainingConfig&) const = default;
};

template <class V>
void fields(V& v, TokenizerTrainingConfig& c) {
  v(c.kind, "kind", "unigram: as ALBERT's; bpe: byte pair encoding");
  v(c.vocab_size, "vocab_size",
    "pieces to learn, the five special ones included; null: 30000, or as many as a smaller text "
    "supports",
    at_least(16));
  v(c.lower_case, "lower_case", "make all text lower case");
  v(c.strip_accents, "strip_accents",
    "remove combining marks: é and ü become e and u; marks of Thai, Hindi, Hebrew and others go "
    "too");
}

struct TokenizerConfig {
  std::optional<std::string> path;
  std::optional<BuiltinTokenizer> builtin;
  TokenizerTrainingConfig train;
  bool operator==(const TokenizerConfig&) const = default;
};

template <class V>
void fields(V& v, TokenizerConfig& c) {
  v(c.path, "path",
    "folder of a tokenizer to use (tokenizer.json, a SentencePiece model, vocab.txt, or vocab.json "
    "with merges.txt), or the file; null: one is trained on data.train");
  v(c.builtin, "builtin",
    "a fixed vocabulary instead of path, for tasks from scratch. bytes: of text and of images; "
    "listops: its symbols; null: none");
  v(c.train, "train", "the tokenizer to train when there is no path");
}

/// A number that changes after steps, as in {0: 512, 300: 1024}.
using StepSchedule = std::vector<std::pair<std::string, std::int64_t>>;
/// The steps of `schedule` and the numbers after as many; `constant` from the beginning without it.
/// Keys that are no steps are left out: validate_pretraining() reports them.
std::vector<std::pair<std::int64_t, std::int64_t>> steps_of(const StepSchedule& schedule,
                                                            std::int64_t constant);

struct DataConfig {
  std::vector<TextSource> train;
  std::vector<TextSource> validation;
  std::optional<double> validation_fraction;
  Documents documents = Documents::files;
  std::string text_column = "text";
  double max_unreadable = 0.01;
  std::int64_t sequence_length = 512;
  StepSchedule length_schedule;
  bool cross_documents = false;
  SequencePacking packing = SequencePacking::alone;
  std::string cache = "runs/cache";
};

template <class V>
void fields(V& v, DataConfig& c) {
  v(c.train, "train",
    "text files and tables (.jsonl, .json, .csv, .tsv) to train on: paths and patterns; plain, .gz "
    "or .zst. Or a mixture of sources: [{files: [wiki/*.txt], name: wiki, weight: 0.7}, …]");
  v(c.validation, "validation", "held-out text files; with names, as in train, the loss of each");
  v(c.validation_fraction, "validation_fraction",
    "share of the training documents to hold out when no validation files are given; null: 0.05",
    below_one);
  v(c.documents, "documents",
    "files: one document a file; lines: one a line; blank_lines: documents lie between blank "
    "lines. In a table each row is one");
  v(c.text_column, "text_column", "the column of a table that holds the texts");
  v(c.max_unreadable, "max_unreadable",
    "largest share of the text's bytes that may be left out because they are not UTF-8 text",
    probability);
  v(c.sequence_length, "sequence_length",
    "tokens of a training sequence, the two special ones included", at_least(8));
  v(c.length_schedule, "length_schedule",
    "sequences of pretraining that grow: steps, and the tokens of a sequence after as many steps, "
    "such as {0: 512, 300: 1024, 700: 4096}. The last length is sequence_length, and each divides "
    "it: a step has proportionally more of the shorter sequences, and as many tokens. "
    "Empty: all have sequence_length",
    at_least(8));
  v(c.cross_documents, "cross_documents", "let a sequence go on into the next document");
  v(c.packing, "packing",
    "pieces of documents in pretraining. alone: one in each sequence; isolated: as many as "
    "sequence_length holds, each computed by itself");
  v(c.cache, "cache", "folder for tokenizers and token shards, shared by runs");
}

/// How the documents of a run are read.
inline TextForm text_form(const DataConfig& config) {
  return {config.documents, config.text_column};
}

/// The objective of pretraining.
enum class PretrainingObjective { masked, replaced_tokens };

struct PretrainingConfig {
  PretrainingObjective objective = PretrainingObjective::masked;
  GeneratorConfig generator;
  double discriminator_weight = 50;

  bool operator==(const PretrainingConfig&) const = default;
};

template <class V>
void fields(V& v, PretrainingConfig& c) {
  v(c.objective, "objective",
    "masked: the masked tokens; replaced_tokens: which tokens a generator, trained beside the "
    "model on the masked tokens, has replaced (ELECTRA)");
  v(c.generator, "generator",
    "replaced_tokens: a masked language model with the model's layers and embedding tables");
  v(c.discriminator_weight, "discriminator_weight",
    "replaced_tokens: weight of the model's loss, a mean over all tokens, beside the generator's, "
    "a mean over the masked ones",
    positive);
}

/// Distillation from a teacher: further losses of pretraining (train/loop/distillation.h).
struct DistillationConfig {
  std::optional<std::string> teacher = std::nullopt;
  double logits = 1;
  double attention_output = 1;
  double temperature = 2;
  std::optional<std::int64_t> until_step = std::nullopt;

  /// Whether step `step`, from 1, has the losses of a teacher. Skipped batches count as steps.
  bool at_step(std::int64_t step) const { return teacher && (!until_step || step <= *until_step); }
  bool operator==(const DistillationConfig&) const = default;
};

template <class V>
void fields(V& v, DistillationConfig& c) {
  v(c.teacher, "teacher",
    "folder of a masked language model with exact attention and the run's tokenizer, such as the "
    "one that nystrom convert started from; null: no distillation");
  v(c.logits, "logits",
    "weight of the Kullback-Leibler divergence between the predictions at masked tokens, the "
    "teacher's first, times temperature²",
    not_negative);
  v(c.attention_output, "attention_output",
    "weight of the mean squared error of each layer's attention output, after its projection and "
    "before dropout and residual, summed over the layers",
    not_negative);
  // Beyond, f32 rounds the divergence by a hundredth and more.
  v(c.temperature, "temperature", "divides the logits of both before their softmax",
    between(positive_in_f32.lower, 100));
  v(c.until_step, "until_step", "last step with a teacher; null: all steps have one", at_least(1));
}

struct EvaluationConfig {
  std::optional<std::int64_t> every = 1000;
  std::optional<std::int64_t> early_stop_patience;
};

template <class V>
void fields(V& v, EvaluationConfig& c) {
  v(c.every, "every",
    "steps between evaluations on the validation data; null: as many as the first epoch has",
    at_least(1));
  v(c.early_stop_patience, "early_stop_patience",
    "evaluations without a new best after which training stops; null: never", at_least(1));
}

struct CheckpointConfig {
  std::int64_t every = 1000;
  std::int64_t keep = 3;
};

template <class V>
void fields(V& v, CheckpointConfig& c) {
  v(c.every, "every", "steps between checkpoints", at_least(1));
  v(c.keep, "keep", "newest checkpoints to keep; the best one is kept too", at_least(2));
}

struct LoggingConfig {
  std::int64_t every = 10;
  bool tensorboard = true;
  std::optional<std::int64_t> attention_every = 100;
  double attention_error_limit = 0.5;
  std::vector<std::string> fill_masks = {"He shook his [MASK] and said nothing.",
                                         "She looked out of the [MASK] at the garden.",
                                         "It was a [MASK] morning, and the sun was shining."};
};

template <class V>
void fields(V& v, LoggingConfig& c) {
  v(c.every, "every", "steps between records in metrics.jsonl", at_least(1));
  v(c.tensorboard, "tensorboard", "also write TensorBoard events");
  v(c.attention_every, "attention_every",
    "steps between measurements of every layer's attention (attention.kind nystrom), such as its "
    "error against exact attention; null: none",
    at_least(1));
  v(c.attention_error_limit, "attention_error_limit",
    "error of a layer's attention that the log mentions, after three measurements in a row",
    positive);
  v(c.fill_masks, "fill_masks",
    "texts with [MASK] that a masked language model fills at each evaluation, for nystrom report; "
    "texts that are too long are left out");
}

/// The dtype in which the gradients of several processes are summed. exact: that of the master
/// weights; bf16: each sum is rounded.
enum class Reduction { exact, bf16 };

/// The reaction of a run to a loss spike (train/optim/loss_watch.h).
enum class OnLossSpike { warn, roll_back };

struct TrainingConfig {
  std::optional<std::int64_t> steps = 500000;
  std::optional<double> epochs;
  std::int64_t batch_size = 256;
  StepSchedule batch_schedule;
  std::int64_t micro_batch_size = 32;
  DType dtype = DType::bf16;
  bool activation_checkpointing = false;
  bool deterministic = false;
  std::int64_t zero = 0;
  Reduction reduction = Reduction::exact;
  double timeout = 600;
  OnLossSpike on_loss_spike = OnLossSpike::warn;
  std::optional<double> ema;
  double z_loss = 0;
};

template <class V>
void fields(V& v, TrainingConfig& c) {
  v(c.steps, "steps", "optimizer steps of the whole run; null: epochs decide", at_least(1));
  v(c.epochs, "epochs",
    "passes over the training data of the whole run, instead of steps; the steps count as of full "
    "length where data.length_schedule has shorter ones",
    positive);
  v(c.batch_size, "batch_size", "sequences of one optimizer step, over all devices", at_least(1));
  v(c.batch_schedule, "batch_schedule",
    "batches of pretraining that grow: steps, and the sequences of a step after as many steps, "
    "such "
    "as {0: 64, 1000: 128, 3000: 256}. The last number is batch_size, and each divides it: a step "
    "has as many micro-batches, which are smaller. Empty: all have batch_size",
    at_least(1));
  v(c.micro_batch_size, "micro_batch_size",
    "sequences computed at once on one device; divides batch_size. Left out: the largest divisor "
    "of it up to 32",
    at_least(1));
  v(c.dtype, "dtype",
    "type of the computation; weights and moments stay f32. f16: only on GPUs, for those without "
    "bf16, with dynamic loss scaling. The loss scale starts at 65536, doubles after 2000 steps "
    "without overflow and halves after an overflow; that step is skipped. An overflow counts among "
    "the three failed steps in a row that end a run only at loss scale 1. f64: on CPU, for checks");
  v(c.activation_checkpointing, "activation_checkpointing",
    "recompute activations in the backward pass: less memory, more time");
  v(c.deterministic, "deterministic",
    "bit-identical results with any number of processes: gradients of micro-batches are summed in "
    "their order, at the cost of memory and time. Runs with one number of processes are always "
    "bit-identical on the same machine");
  v(c.zero, "zero",
    "state that is sharded over the processes. 0: none, each holds the whole state; 1: moments, "
    "f32 weights and average (ZeRO-1), each process updates its part of the weights",
    between(0, 1));
  v(c.reduction, "reduction",
    "how the gradients of several processes are added up. exact: in the type of weights and "
    "moments; bf16: half the bytes, each sum rounded");
  v(c.timeout, "timeout",
    "seconds that processes wait for one that is slow, before all end and name it", positive);
  v(c.on_loss_spike, "on_loss_spike",
    "reaction of pretraining to a loss spike, which is three steps in a row with a robust z-score "
    "above 6 among the last 100 losses. warn: a warning; roll_back: also restores the last "
    "checkpoint before the spike, if there is one, and continues with the next batches, so that "
    "those since that checkpoint are skipped; at the fourth spike after the same checkpoint the "
    "run ends");
  v(c.ema, "ema",
    "decay of an exponential moving average of the weights, which is evaluated, exported and used; "
    "at most (1 + t) / (10 + t) after update t, for the sake of short runs; null: none",
    below_one);
  v(c.z_loss, "z_loss",
    "pretraining: weight of the mean of log² Σ exp(logits) at masked tokens, which keeps logits of "
    "long runs in bf16 near 0, such as 1e-4; the loss of training holds it, that of validation "
    "does not; 0: none",
    not_negative);
}

/// The source of a run's initial weights.
struct StartConfig {
  std::optional<std::string> from;
  bool fresh_head = false;
};

/// The section `model:` of a run's YAML file.
struct ModelSection {
  StartConfig& start;
  ModelConfig& model;
};

template <class V>
void fields(V& v, ModelSection& c) {
  v(c.start.from, "from",
    "Hugging Face folder, run directory or checkpoint to start from: its weights, and for all "
    "options below its values; null: fresh weights");
  v(c.start.fresh_head, "fresh_head",
    "with from: start the head anew even where the folder has one");
  fields(v, c.model);
}

struct RunConfig {
  std::string run_dir = "runs/base";
  std::int64_t seed = 42;
  StartConfig start;
  ModelConfig model;
  TokenizerConfig tokenizer;
  DataConfig data;
  TaskConfig task;
  EmbeddingLossOptions embedding_loss;
  PretrainingConfig pretraining;
  MaskingConfig masking;
  DistillationConfig distillation;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  TrainingConfig training;
  EvaluationConfig evaluation;
  CheckpointConfig checkpoint;
  LoggingConfig logging;

  /// Not an option. True if the file leaves out model.vocab_size: its value then becomes the size
  /// of the tokenizer as soon as that is known.
  bool vocab_size_from_tokenizer = false;
};

template <class V>
void fields(V& v, RunConfig& c) {
  v(c.run_dir, "run_dir", "folder of the run's checkpoints and logs");
  v(c.seed, "seed", "of every random draw of the run", not_negative);
  ModelSection model{c.start, c.model};
  v(model, "model", "the model");
  v(c.tokenizer, "tokenizer", "how text becomes tokens");
  v(c.data, "data", "the text");
  v(c.task, "task", "the downstream task of nystrom finetune; pretraining has masking instead");
  v(c.embedding_loss, "embedding_loss", "the loss of tasks of kind embeddings");
  v(c.pretraining, "pretraining", "what pretraining learns");
  v(c.masking, "masking", "which tokens are to be predicted");
  v(c.distillation, "distillation", "losses of pretraining against a teacher");
  v(c.optimizer, "optimizer", "the optimizer");
  v(c.schedule, "schedule", "the learning rate over the steps");
  v(c.training, "training", "how the run computes");
  v(c.evaluation, "evaluation", "held-out loss during training");
  v(c.checkpoint, "checkpoint", "saved states of the run");
  v(c.logging, "logging", "records of the run");
}

/// The path of an option or section in `section`, which is empty at the top.
inline std::string path_in(const std::string& section, std::string_view name) {
  return section.empty() ? std::string(name) : section + "." + std::string(name);
}

/// Calls visit(section, name, member, help, range…) for every option and every section of `root`,
/// each section before its own options. `section` is the path of the section around it.
template <class Root, class F>
void visit_options(Root& root, const F& visit, const std::string& section = "") {
  auto visitor = [&]<class T>(T& member, const char* name, const char* help, const auto&... range) {
    visit(section, name, member, help, range...);
    if constexpr (Section<T>) visit_options(member, visit, path_in(section, name));
  };
  fields(visitor, root);
}

/// Whether the run trains a downstream task, even one whose kind is missing. All other runs
/// pretrain.
bool has_task(const RunConfig& config);
/// Whether the run pretrains on features.
bool reads_features(const RunConfig& config);
/// The head on the encoder for a kind of task.
Head head_of(TaskKind kind);
/// The default learning rate of fine-tuning a model of this width, to two digits: 3e-5 for width
/// 768 (Xiong et al., AAAI 2021), growing with the inverse square of the width up to 1e-3. Small
/// models learn next to nothing at 3e-5: docs/finetuning.md has the measurements.
double finetuning_rate(std::int64_t hidden_size);
/// Sets the defaults of fine-tuning: batches of 32 and 4 epochs (Xiong et al., AAAI 2021), the
/// finetuning_rate of `hidden_size`, and one evaluation per epoch.
void set_finetuning_defaults(RunConfig& config, std::int64_t hidden_size);

/// Consecutive steps of one shape.
struct Stage {
  std::int64_t begin = 0;      ///< steps before the stage; skipped batches count as steps
  std::int64_t length = 0;     ///< tokens of a sequence
  std::int64_t sequences = 0;  ///< sequences of a step
  std::int64_t first = 0;      ///< sequences that the steps before it took since this length began
};
/// The stages of data.length_schedule and training.batch_schedule; one without them.
std::vector<Stage> stages_of(const RunConfig& config);

/// The number of optimizer steps of the whole run, over `samples` training samples. It follows from
/// training.epochs if training.steps is null.
std::int64_t total_steps(const TrainingConfig& config, std::int64_t samples);
/// Throws an InputError if the warm-up or the stages have more steps than the whole run over
/// `samples` training samples, or the warm-up leaves the decay too few.
void require_schedules_within_run(const RunConfig& config, std::int64_t samples);
/// The number of steps between evaluations: evaluation.every, or one epoch of `samples` training
/// samples if that is null.
std::int64_t evaluation_interval(const RunConfig& config, std::int64_t samples);

}  // namespace nystrom
