#include "train/config/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "core/base/printable.h"
#include "core/base/require.h"
#include "core/dispatch.h"
#include "nn/model.h"
#include "train/config/config_io.h"
#include "train/config/yaml.h"
#include "train/optim/parameter_groups.h"
#include "train/optim/schedule.h"

namespace nystrom {
namespace {

/// Adds the problem that two options exclude each other; `one` and `other` may tell their values.
void add_conflict(Problems& found, const std::string& one, const std::string& other,
                  const std::string& remark) {
  const auto option = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  add_problem(found, {option(one), option(other)}, "{} and {} exclude each other; {}", one, other,
              remark);
}

void check_steps(const RunConfig& config, Problems& found) {
  if (config.optimizer.betas.size() != 2)
    add_problem(found, {"optimizer.betas"},
                "optimizer.betas needs 2 numbers, such as [0.9, 0.999]; got {}",
                config.optimizer.betas.size());
  const TrainingConfig& training = config.training;
  if (training.steps && training.epochs)
    add_conflict(found, fmt::format("training.steps {}", *training.steps),
                 fmt::format("training.epochs {}", *training.epochs), "set one of them to null");
  const auto warmup = config.schedule.warmup_steps;
  if (warmup && config.schedule.warmup_share)
    add_conflict(found, fmt::format("schedule.warmup_steps {}", *warmup),
                 fmt::format("schedule.warmup_share {}", *config.schedule.warmup_share),
                 "set one of them to null");
  if (config.schedule.decay_share && config.schedule.decay != Decay::wsd)
    add_problem(found, {"schedule.decay_share", "schedule.decay"},
                "schedule.decay_share is for schedule.decay wsd, and decay is {}",
                enum_name(config.schedule.decay));
  if (training.steps && warmup && *warmup > *training.steps)
    add_problem(found, {"schedule.warmup_steps", "training.steps"},
                "schedule.warmup_steps {} exceeds training.steps {}; the learning rate would "
                "never reach its peak",
                *warmup, *training.steps);
  const auto size = [](std::int64_t value) { return static_cast<double>(value); };
  std::int64_t steps = training.steps.value_or(1);
  for (const StepSchedule& schedule : {config.data.length_schedule, training.batch_schedule})
    for (const auto& [begin, number] : steps_of(schedule, 0)) steps = std::max(steps, begin);
  const double tokens = size(training.batch_size) * size(config.data.sequence_length) * size(steps);
  if (tokens > 1e18)
    add_problem(found,
                {"training.batch_size", "training.steps", "data.sequence_length",
                 "training.batch_schedule", "data.length_schedule"},
                "training.batch_size {}, data.sequence_length {} and the steps make about {:.2g} "
                "tokens; expected at most 1e+18: lower them",
                training.batch_size, config.data.sequence_length, tokens);
  if (training.batch_size % training.micro_batch_size != 0)
    add_problem(found, {"training.batch_size", "training.micro_batch_size"},
                "training.batch_size {} is not divisible by micro_batch_size {}; a step is a "
                "whole number of micro-batches",
                training.batch_size, training.micro_batch_size);
  if (training.zero > 0 && config.optimizer.name == OptimizerKind::lamb)
    add_conflict(found, "training.zero 1", "optimizer.name lamb",
                 "lamb needs whole parameters: set training.zero to 0, or optimizer.name to adamw");
  if (training.deterministic && training.reduction != Reduction::exact)
    add_conflict(found, "training.deterministic", "training.reduction bf16",
                 "the rounding depends on the number of processes");
}

void check_data(const RunConfig& config, Problems& found) {
  if (config.model.positions != Positions::none &&
      config.data.sequence_length > config.model.max_position_embeddings)
    add_problem(found, {"data.sequence_length", "model.max_position_embeddings"},
                "data.sequence_length {} exceeds model.max_position_embeddings {}; shorten the "
                "sequences or {}",
                config.data.sequence_length, config.model.max_position_embeddings,
                config.model.has_position_table()
                    ? "enlarge the model's position table"
                    : "raise the latter, of a trained model by nystrom extend");
  if (!config.data.validation.empty() && config.data.validation_fraction)
    add_conflict(found, "data.validation_fraction", "data.validation", "give one of them");
  std::ranges::move(source_problems(config.data.train, config.data.validation),
                    std::back_inserter(found));
  if (config.tokenizer.builtin && config.tokenizer.path)
    add_conflict(found, fmt::format("tokenizer.builtin {}", enum_name(*config.tokenizer.builtin)),
                 "tokenizer.path", "give one of them");
}

void check_isolated(const RunConfig& config, Problems& found) {
  if (config.data.cross_documents)
    add_conflict(found, "data.packing isolated", "data.cross_documents",
                 "isolated pieces are each of one document");
  if (config.masking.sentence_order)
    add_conflict(found, "data.packing isolated", "masking.sentence_order",
                 "the order is predicted for a whole sequence");
  if (config.model.fixed_length())
    add_problem(found, {"data.packing", "model.attention.semantics"},
                "data.packing isolated needs model.attention.semantics nystrom; transformers "
                "pads every piece to one length");
}

void check_masking(const RunConfig& config, Problems& found) {
  const std::string keys = config.masking.probability.key_problem(config.training.steps);
  if (!keys.empty())
    add_problem(found, {"masking.probability", "training.steps"}, "masking.probability {}", keys);
  if (config.masking.mask + config.masking.random > 1)
    add_problem(
        found, {"masking.mask", "masking.random"},
        "masking.mask {} and masking.random {} add up to more than 1; the rest stays unchanged",
        config.masking.mask, config.masking.random);
  if (config.masking.sentence_order && config.data.cross_documents)
    add_conflict(found, "masking.sentence_order", "data.cross_documents",
                 "both segments come from one document");
  if (config.data.packing == SequencePacking::isolated) check_isolated(config, found);
  if (config.masking.sentence_order && config.model.type_vocab_size < 2)
    add_problem(found, {"masking.sentence_order", "model.type_vocab_size"},
                "masking.sentence_order needs model.type_vocab_size 2, got {}; each segment "
                "has a type of its own",
                config.model.type_vocab_size);
  if (config.masking.mask == 0 && config.masking.random == 0)
    add_problem(found, {"masking.mask", "masking.random"},
                "masking.mask and masking.random are both 0: every chosen token would stay as it "
                "is, and the model would see what it predicts");
  const SpanConfig& span = config.masking.span;
  constexpr std::int64_t longest_span = 10000;
  if (span.max > longest_span)
    add_problem(found, {"masking.span.max"}, "masking.span.max is {}; expected at most {}",
                span.max, longest_span);
  if (!span.mean && span.max != SpanConfig{}.max)
    add_problem(found, {"masking.span.max", "masking.span.mean"},
                "masking.span.max is for spans, and masking.span.mean is null; give it, or leave "
                "max out");
  if (span.mean && *span.mean > static_cast<double>(span.max))
    add_problem(
        found, {"masking.span.mean", "masking.span.max"},
        "masking.span.mean {} exceeds masking.span.max {}; most spans would be cut: raise max",
        *span.mean, span.max);
}

/// Reports options of `pretraining` that do not fit each other or the rest.
void check_pretraining(const RunConfig& config, Problems& found) {
  if (config.pretraining.objective == PretrainingObjective::masked)
    return refuse_set(config, {"pretraining."}, "pretraining.objective replaced_tokens", found);
  const char* const replaced = "pretraining.objective replaced_tokens";
  if (config.masking.sentence_order)
    add_conflict(found, replaced, "masking.sentence_order",
                 "its head beside it is that of a masked language model");
  if (config.distillation.teacher)
    add_conflict(found, replaced, "distillation.teacher", "the teacher predicts masked tokens");
  if (config.model.generator && problems(config.model).empty())
    for (const Problem& problem : problems(generator_of(config.model)))
      add_problem(found,
                  {"pretraining.generator.hidden_size", "pretraining.generator.num_attention_heads",
                   "model.hidden_size"},
                  "pretraining.generator: {}", problem.message);
}

/// Reports wrong steps of the schedule `option`, which ends with the number of `last_option`.
void check_schedule(const char* option, const StepSchedule& schedule, const char* last_option,
                    std::int64_t last, std::optional<std::int64_t> total, Problems& found) {
  if (schedule.empty()) return;
  const auto add = [&](const std::string& reason) {
    add_problem(found, {option, last_option, "training.steps"}, "{} {}", option, reason);
  };
  for (const auto& [step, number] : schedule) {
    const auto begin = parse_whole_number(step);
    if (!begin || *begin < 0)
      return add(fmt::format(
          "'{}' is no number of steps; expected whole numbers, as in {{0: {}, 300: {}}}",
          printable(step, 40), std::max<std::int64_t>(1, last / 2), last));
    if (last % number != 0)
      add(fmt::format("{}: {} does not divide {} {}", step, number, last_option, last));
  }
  const auto steps = steps_of(schedule, last);
  if (steps.front().first != 0)
    add(fmt::format("begins after {} steps; give the number of the first ones, as in {{0: {}, …}}",
                    steps.front().first, steps.front().second));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const auto &before = steps[i - 1], &now = steps[i];
    if (now.first <= before.first)
      add(fmt::format("has {} after {}; its steps must ascend", now.first, before.first));
    if (now.second <= before.second)
      add(fmt::format("{}: {} is not more than {} before; its numbers must grow", now.first,
                      now.second, before.second));
  }
  if (steps.back().second != last)
    add(fmt::format("ends with {}, but {} is {}; make them equal", steps.back().second, last_option,
                    last));
  if (total && steps.back().first >= *total)
    add(
        fmt::format("reaches {} after {} steps, but training.steps is {}; begin earlier, or give "
                    "more steps",
                    steps.back().second, steps.back().first, *total));
}

/// Reports wrong data.length_schedule and training.batch_schedule. They are no rules of validate():
/// evaluations of a finished run have one length, which may be another.
void check_stages(const RunConfig& config, Problems& found) {
  const TrainingConfig& training = config.training;
  check_schedule("data.length_schedule", config.data.length_schedule, "data.sequence_length",
                 config.data.sequence_length, training.steps, found);
  check_schedule("training.batch_schedule", training.batch_schedule, "training.batch_size",
                 training.batch_size, training.steps, found);
  for (const auto& [step, batch] : training.batch_schedule) {
    const std::int64_t parts = training.batch_size / batch;
    if (training.batch_size % batch == 0 && training.micro_batch_size % parts != 0)
      add_problem(found, {"training.batch_schedule", "training.micro_batch_size"},
                  "training.batch_schedule {}: {} is 1/{} of batch_size {}, and so are its "
                  "micro-batches, but training.micro_batch_size {} is not divisible by {}",
                  step, batch, parts, training.batch_size, training.micro_batch_size, parts);
  }
  if (!config.data.length_schedule.empty() && config.model.fixed_length())
    add_problem(
        found, {"data.length_schedule", "model.attention.semantics"},
        "data.length_schedule: with attention.semantics transformers the model takes only {} "
        "tokens; set model.attention.semantics to nystrom",
        *config.model.fixed_length());
}

void check_distillation(const RunConfig& config, Problems& found) {
  const DistillationConfig& own = config.distillation;
  if (!own.teacher)
    return refuse_set(config, {"distillation."}, "a distillation.teacher, which is null", found);
  if (own.logits == 0 && own.attention_output == 0)
    add_problem(found, {"distillation.logits", "distillation.attention_output"},
                "distillation.logits and distillation.attention_output are both 0; give one "
                "of them a weight, or leave the teacher out");
  if (config.masking.sentence_order)
    add_conflict(found, "distillation.teacher", "masking.sentence_order",
                 "the teacher reads the text in its order");
}

/// A folder that is made: `~` and `$HOME` would be made by that name.
void check_new_folder(const char* key, const std::string& folder, Problems& found) {
  const auto begins_variable = [](char c, char next) {
    return c == '$' &&
           (next == '{' || next == '_' || std::isalpha(static_cast<unsigned char>(next)));
  };
  const bool variable = std::ranges::adjacent_find(folder, begins_variable) != folder.end();
  if (folder == "~" || folder.starts_with("~/") || variable)
    add_problem(found, {key},
                "{} is {}, and only a shell replaces {}; write the folder out, such as "
                "/home/me/runs",
                key, quote_for_message(folder), variable ? "variables" : "~");
}

/// Reports options that nothing would read: of an optimizer, a tokenizer or a loss that the run
/// has not.
void check_unused(const RunConfig& config, Problems& found) {
  if (config.optimizer.name != OptimizerKind::muon)
    refuse_set(config, {"optimizer.momentum"}, "optimizer.name muon", found);
  if (config.start.fresh_head && !config.start.from)
    add_problem(found, {"model.fresh_head", "model.from"},
                "model.fresh_head is for a model that starts from a folder, and model.from is "
                "null; name one, or leave it out");
  const char* const given = config.start.from          ? "model.from"
                            : config.tokenizer.path    ? "tokenizer.path"
                            : config.tokenizer.builtin ? "tokenizer.builtin"
                                                       : nullptr;
  // The number of pieces may be that of the tokenizer, which with_tokenizer knows.
  const TokenizerTrainingConfig untrained{.vocab_size = config.tokenizer.train.vocab_size};
  if (given && config.tokenizer.train != untrained)
    add_problem(
        found,
        {"tokenizer.train.kind", "tokenizer.train.lower_case", "tokenizer.train.strip_accents"},
        "tokenizer.train is for a tokenizer that the run trains, and this one is that of "
        "{}; leave it out",
        given);
  // Python reads the section of a task before the data give its kind.
  if (has_task(config) && config.task.kind != TaskKind::embeddings)
    refuse_set(config, {"embedding_loss."}, "tasks of kind embeddings", found);
}

}  // namespace

void refuse_set(const RunConfig& config, const std::vector<std::string>& options,
                const std::string& purpose, Problems& found) {
  for (const std::string& option : set_options(config)) {
    const auto names = [&](const std::string& name) {
      return option == name || (name.ends_with('.') && option.starts_with(name));
    };
    if (std::ranges::any_of(options, names))
      add_problem(found, {option}, "{} is for {}; leave it out", option, purpose);
  }
}

Problems validate(const RunConfig& config) {
  Problems found;
  if (config.run_dir.empty())
    add_problem(found, {"run_dir"}, "run_dir is empty; expected a folder such as runs/base");
  if (config.data.cache.empty())
    add_problem(found, {"data.cache"}, "data.cache is empty; expected a folder such as runs/cache");
  for (const auto& [option, folder] : {std::pair("model.from", &config.start.from),
                                       {"tokenizer.path", &config.tokenizer.path},
                                       {"distillation.teacher", &config.distillation.teacher}})
    if (*folder && (*folder)->empty())
      add_problem(found, {option}, "{} is empty; name a folder, or leave it out", option);
  check_new_folder("run_dir", config.run_dir, found);
  check_new_folder("data.cache", config.data.cache, found);
  std::ranges::move(in_section("model", problems(config.model)), std::back_inserter(found));
  check_steps(config, found);
  check_data(config, found);
  check_masking(config, found);
  check_pretraining(config, found);
  check_distillation(config, found);
  if (has_task(config)) std::ranges::move(problems(config.task), std::back_inserter(found));
  check_unused(config, found);
  return found;
}

void require_computable(const RunConfig& config, Device device) {
  with_context("training.dtype", [&] { require_computable(config.training.dtype, device); });
}

void check_decay(const RunConfig& config, Problems& found) {
  const std::string problem = decay_problem(config.schedule, config.training.steps);
  if (!problem.empty())
    add_problem(found,
                {"schedule.decay_share", "schedule.warmup_steps", "schedule.warmup_share",
                 "training.steps"},
                "{}", problem);
}

void check_groups(const RunConfig& config, Problems& found) {
  if (config.optimizer.groups.empty() || !problems(config.model).empty()) return;
  const Model model(config.model);
  std::ranges::move(group_problems(model.parameters(), config.optimizer),
                    std::back_inserter(found));
}

Problems validate_pretraining(const RunConfig& config, bool of_files) {
  Problems found = validate(config);
  if (!has_task(config) && config.task != TaskConfig{})
    add_problem(
        found, {"task.kind", "task.recipe"},
        "section task has options, but names neither kind nor recipe; name one, or leave it out");
  if (!has_task(config))
    refuse_set(config, {"embedding_loss."},
               of_files ? "tasks of kind embeddings"
                        : "nystrom finetune, and pretraining reads the inputs alone",
               found);
  if (of_files && config.data.train.empty())
    add_problem(found, {"data.train"},
                "data.train is empty; name the text files to train on, such as [corpus/*.txt]");
  if (of_files && config.data.validation.empty() &&
      config.data.validation_fraction.value_or(0) == 0)
    add_problem(
        found, {"data.validation", "data.validation_fraction"},
        "data.validation is empty; name held-out text files, or set data.validation_fraction, "
        "such as 0.01");
  if (config.pretraining.objective == PretrainingObjective::replaced_tokens)
    refuse_set(config, {"logging.fill_masks"}, "pretraining.objective masked", found);
  const auto fixed = config.model.fixed_length();
  if (fixed && *fixed != config.data.sequence_length)
    add_problem(
        found, {"data.sequence_length", "model.attention.semantics"},
        "data.sequence_length {}: with attention.semantics transformers the model takes only "
        "{}; change it, or set model.attention.semantics to nystrom",
        config.data.sequence_length, *fixed);
  if (config.model.head == Head::masked_features)
    std::ranges::move(validate_masked_features(config), std::back_inserter(found));
  else if (config.model.embed_dim)
    add_problem(found, {"model.embed_dim"},
                "model.embed_dim is set, but pretraining predicts tokens of text; leave it out");
  if (config.distillation.teacher && !config.start.from && !config.tokenizer.path)
    add_problem(found, {"distillation.teacher", "tokenizer.path"},
                "distillation.teacher needs a run with the teacher's tokenizer; name its "
                "folder in tokenizer.path");
  check_groups(config, found);
  check_decay(config, found);
  check_stages(config, found);
  return found;
}

void require_none(const Problems& problems) {
  require_input(problems.empty(), "{}", fmt::join(messages_of(problems), "\n"));
}

}  // namespace nystrom
