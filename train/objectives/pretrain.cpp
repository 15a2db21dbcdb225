#include "train/objectives/pretrain.h"

#include <algorithm>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/config/validation.h"
#include "train/loop/run_memory.h"
#include "train/objectives/corpus.h"
#include "train/objectives/fill_mask.h"
#include "train/objectives/replaced_tokens.h"

namespace nystrom {
namespace {

/// A hash of the tokens of all sources.
std::string content_checksum(const std::vector<CorpusSource>& sources) {
  std::string text;
  for (const CorpusSource& source : sources)
    text += fmt::format("{} {}\n", source.name, source.tokens->checksum());
  return text_checksum(text);
}

std::int64_t sequences_of(const std::vector<MaskedSamples>& sources) {
  std::int64_t sequences = 0;
  for (const MaskedSamples& source : sources) sequences += source.packing->size();
  return sequences;
}

/// The objective of pretraining on a corpus: masked language modelling, or replaced tokens.
class PretrainingRun : public Objective {
 public:
  /// `config` must outlive it. Each evaluation writes its result to `last`.
  PretrainingRun(const RunConfig& config, Corpus corpus, Distillation distillation,
                 Evaluation& last, Communicator& communicator)
      : config_(config),
        communicator_(communicator),
        corpus_(std::move(corpus)),
        stages_(stages_of(config_)),
        train_(masked_sources(corpus_.train, *corpus_.tokenizer, config_)),
        validation_(masked_sources(corpus_.validation, *corpus_.tokenizer, config_)),
        distillation_(std::move(distillation)),
        evaluation_(last) {
    options_.batch_size = config_.training.batch_size;
    options_.micro_batch_size = config_.training.micro_batch_size;
    options_.rank = communicator.rank();
    options_.world_size = communicator.size();
    run_data_ = run_data(corpus_, distillation_.teacher.get());
    run_data_.samples = sequences_of(train_);
    run_data_.metric_name = "loss";
    run_data_.tokenizer_files = corpus_.tokenizer->files(config_.data.sequence_length);
    run_data_.micro_batch_ranks = micro_batch_ranks(options_);
  }

  void start(std::int64_t batch) override {
    next_ = batch;
    loader_ = training_loader(config_, corpus_.train, train_, options_, *stage_of(batch), batch);
  }

  bool are_comparable(std::int64_t a, std::int64_t b) const override {
    const DistillationConfig& teacher = config_.distillation;
    return stage_of(a) == stage_of(b) && teacher.at_step(a + 1) == teacher.at_step(b + 1);
  }

  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    std::string new_stage;
    if (const auto stage = stage_of(next_); next_ > 0 && stage->begin == next_) {
      start(next_);
      new_stage = fmt::format("{} sequences of {} tokens a step", stage->sequences, stage->length);
    }
    if (config_.distillation.teacher && config_.distillation.until_step == next_)
      new_stage += (new_stage.empty() ? "" : ", ") + std::string("without the teacher");
    ++next_;
    const std::vector<Batch> batches = loader_->next();
    StepOptions own = options;
    // By batches, as the stages: the teacher may not take the sequences of the next one.
    if (config_.distillation.at_step(next_)) own.distillation = &distillation_;
    StepResult done = detects_replacements()
                          ? replaced_tokens_step(model, optimizer, batches,
                                                 config_.pretraining.discriminator_weight, own)
                          : train_step(model, optimizer, batches, own);
    if (!new_stage.empty()) done.new_stage = new_stage + " from here on";
    return done;
  }

  Score evaluate(const Model& model, const EvaluationProgress& progress) override {
    return detects_replacements() ? replacements(model, progress) : masks(model, progress);
  }

  /// Says how well the discriminator did in the last evaluation, if there was one.
  void tell_replacements(Log& log) const {
    if (!replacements_) return;
    const double accuracy = replacements_->accuracy(), baseline = replacements_->baseline();
    if (accuracy > baseline)
      log.say(fmt::format("validation accuracy {:.1f} %; always \"original\": {:.1f} %",
                          100 * accuracy, 100 * baseline));
    else
      log.warn(fmt::format(
          "accuracy {:.1f} % is no better than always \"original\" ({:.1f} %), and {:.1f} % of the "
          "replaced tokens are found; train longer, or with another learning rate",
          100 * accuracy, 100 * baseline,
          100 * replacements_->of[ReplacedTokensSums::found] /
              std::max(replacements_->of[ReplacedTokensSums::replaced], 1.0)));
  }

  std::string samples(const Model& model, std::int64_t step) const override {
    if (config_.logging.fill_masks.empty() || detects_replacements()) return "";
    std::vector<std::string> texts;
    FilledMasks filled{step, {}};
    for (const std::string& text : config_.logging.fill_masks) {
      try {
        filled.texts.push_back(sample_fills(model, *corpus_.tokenizer, text));
        texts.push_back(text);
      } catch (const InputError&) {
        continue;  // the text is too long for the model
      }
    }
    return mask_samples_line(texts, filled);
  }

 private:
  bool detects_replacements() const {
    return config_.pretraining.objective == PretrainingObjective::replaced_tokens;
  }

  /// Calls f(samples, progress) for each source of the held-out text, and returns the results.
  template <class F>
  auto of_sources(const EvaluationProgress& progress, const F& f) {
    const std::int64_t total = sequences_of(validation_);
    std::vector<decltype(f(validation_[0], std::function<void(std::int64_t)>()))> results;
    std::int64_t before = 0;
    for (const MaskedSamples& samples : validation_) {
      results.push_back(f(samples, [&](std::int64_t done) { progress(before + done, total); }));
      before += samples.packing->size();
    }
    return results;
  }

  /// Adds the loss of each source that has a name.
  void add_sources(const std::vector<double>& losses, Score& score) const {
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const std::string& name = corpus_.validation[i].name;
      if (name.empty()) continue;
      score.metrics.emplace_back("loss_" + name, losses[i]);
      score.text += fmt::format(", {} {:.4f}", name, losses[i]);
    }
  }

  Score masks(const Model& model, const EvaluationProgress& progress) {
    if (counts_.empty()) counts_ = count_tokens(validation_);
    const std::vector<Evaluation> sources =
        of_sources(progress, [&](const MaskedSamples& samples, const auto& done) {
          return evaluate_masked_lm(model, samples, config_.training.micro_batch_size,
                                    communicator_, done, counts_);
        });
    evaluation_ = mean_of(sources);
    Score score{evaluation_.loss,
                {{"loss", evaluation_.loss},
                 {"accuracy", evaluation_.accuracy},
                 {"baseline", evaluation_.frequency_loss}},
                fmt::format("loss {:.4f}, accuracy {:.1f} %", evaluation_.loss,
                            100 * evaluation_.accuracy)};
    if (const auto order = evaluation_.order_accuracy) {
      score.metrics.emplace_back("sentence_order_accuracy", *order);
      score.text += fmt::format(", sentence order {:.1f} %", 100 * *order);
    }
    std::vector<double> losses;
    for (const Evaluation& source : sources) losses.push_back(source.loss);
    add_sources(losses, score);
    return score;
  }

  Score replacements(const Model& model, const EvaluationProgress& progress) {
    const double weight = config_.pretraining.discriminator_weight;
    ReplacedTokensSums all;
    std::vector<double> losses;
    const auto measure = [&](const MaskedSamples& samples, const auto& done) {
      return evaluate_replaced_tokens(model, samples, config_.training.micro_batch_size,
                                      communicator_, done);
    };
    for (const ReplacedTokensSums& source : of_sources(progress, measure)) {
      std::ranges::transform(all.of, source.of, all.of.begin(), std::plus());
      losses.push_back(source.loss(weight));
    }
    Score score{all.loss(weight),
                {{"loss", all.loss(weight)}, {"accuracy", all.accuracy()}},
                fmt::format("loss {:.4f}, accuracy {:.1f} %, generator {:.4f}", all.loss(weight),
                            100 * all.accuracy(),
                            all.of[ReplacedTokensSums::generator_loss] /
                                all.of[ReplacedTokensSums::masked])};
    std::ranges::copy(all.metrics(), std::back_inserter(score.metrics));
    add_sources(losses, score);
    replacements_ = all;
    return score;
  }

  /// The stage of batch number `batch`.
  std::vector<Stage>::const_iterator stage_of(std::int64_t batch) const {
    return std::prev(std::ranges::upper_bound(stages_, batch, {}, &Stage::begin));
  }

  const RunConfig& config_;
  Communicator& communicator_;
  LoaderOptions options_;
  Corpus corpus_;
  std::vector<Stage> stages_;
  std::vector<MaskedSamples> train_, validation_;  // of each source, of sequence_length
  std::vector<std::int64_t> counts_;               // of the tokens to validate on
  Distillation distillation_;                      // without a teacher: nothing
  std::int64_t next_ = 0;                          // the next batch
  std::unique_ptr<Loader> loader_;                 // of its stage
  Evaluation& evaluation_;
  std::optional<ReplacedTokensSums> replacements_;  // of the last evaluation
};

}  // namespace

RunData run_data(const Corpus& corpus, const Model* teacher) {
  return {.tokenizer = corpus.train[0].tokens->info().tokenizer,
          .data = content_checksum(corpus.train),
          .validation = content_checksum(corpus.validation),
          .teacher = teacher ? model_hash(*teacher) : ""};
}

std::unique_ptr<Model> load_teacher(const RunSpec& spec, Device device) {
  if (!spec.teacher) return nullptr;
  return load_model(*spec.teacher, spec.options.training.dtype, StoreMode::inference, device);
}

PretrainResult pretrain(const RunSpec& spec, Log& log, Device device, Communicator& communicator,
                        const RunObserver& observer) {
  require_computable(spec.options, device);
  require_memory(spec.options, device, communicator.size(), spec.teacher_shape());
  for (const std::string& line : shared_file_warnings(spec.options)) log.warn(line);
  if (reads_features(spec.options))
    return {pretrain_features(spec, log, device, communicator, observer), {}};
  const RunSession session(spec, log, communicator);
  return with_recorded_errors(log, [&] {
    Corpus corpus = prepare_corpus(spec, log, communicator);
    warn_of_unknown(corpus, log);
    const RunSpec complete = with_tokenizer(spec, corpus.tokenizer);
    Distillation distillation;
    if (complete.teacher) {
      distillation = {complete.options.distillation, load_teacher(complete, device)};
      const auto until = complete.options.distillation.until_step;
      log.say(fmt::format("teacher: {}, {} parameters{}", printable_path(complete.teacher->path),
                          distillation.teacher->parameters().count(),
                          until ? fmt::format(", until step {}", *until) : ""));
    }
    PretrainResult result;
    PretrainingRun objective(complete.options, std::move(corpus), std::move(distillation),
                             result.evaluation, communicator);
    require_schedules_within_run(complete.options, objective.data().samples);
    result.run = train_run(session, complete, objective, device, observer);
    if (!result.run.interrupted) objective.tell_replacements(log);
    return result;
  });
}

}  // namespace nystrom
