#include "train/objectives/embedding_objective.h"

#include <algorithm>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/examples.h"
#include "data/tasks/task_statistics.h"
#include "nn/embedding_loss.h"
#include "train/objectives/task_data.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {
namespace {

/// The vectors of a model, [rows, d]: of length 1 where its options say so.
Var vectors_of(const Model& model, const ModelInput& input, const RunContext& run = {}) {
  const EmbeddingConfig& options = model.config().embedding;
  const Var vectors = model.sentence_vectors(input, options.pooling, run);
  return options.normalize ? unit_rows(vectors) : vectors;
}

/// The columns of vectors [b · columns, d], whose rows are sample by sample: [b, d] each.
std::vector<Var> columns_of(const Var& vectors, std::int64_t count) {
  const std::int64_t samples = vectors.dim(0) / count, width = vectors.dim(1);
  const Var by_sample = reshape(vectors, {samples, count, width});
  std::vector<Var> columns;
  for (std::int64_t c = 0; c < count; ++c)
    columns.push_back(reshape(slice(by_sample, 1, c, c + 1), {samples, width}));
  return columns;
}

/// See make_embedding_objective.
class EmbeddingObjective : public Objective {
 public:
  EmbeddingObjective(const RunConfig& config, EmbeddingData data, Communicator& communicator)
      : config_(config), communicator_(communicator), data_(std::move(data)) {
    const bool of_length_one =
        config.model.embedding.normalize || !config.embedding_loss.matryoshka_dimensions.empty();
    config_.embedding_loss.triplet_margin = config.embedding_loss.margin(of_length_one);
    options_ = loader_options(config, communicator);
    run_data_ = run_data(data_);
    run_data_.samples = std::ssize(data_.train->content().samples);
    run_data_.metric_name = enum_name(*config.task.metric);
    run_data_.higher_is_better = true;
    run_data_.tokenizer_files = data_.tokenizer->files(config.data.sequence_length);
    run_data_.micro_batch_ranks = micro_batch_ranks(options_);
  }

  void start(std::int64_t batch) override {
    loader_ = std::make_unique<EmbeddingLoader>(data_.train, *data_.tokenizer, options_,
                                                config_.data.sequence_length, batch);
  }

  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const EmbeddingStep step = loader_->next();
    if (step.samples <= options_.micro_batch_size) {
      const auto loss = [&](std::size_t, const RunContext& run) {
        return loss_of(vectors_of(model, step.batches[0].input, run), step);
      };
      return optimizer_step(optimizer, step.batches, loss, options);
    }
    const std::pair<double, Tensor> found = loss_and_gradient(model, step, options);
    const Tensor& gradient = found.second;
    // The gradient of Σ vectors · gradient is that of the loss.
    const auto product = [&](std::size_t part, const RunContext& run) {
      const Var vectors = vectors_of(model, step.batches[part].input, run);
      const std::int64_t begin = step.first[part] * step.batches[part].choices;
      const Tensor share = gradient.slice(0, begin, begin + vectors.dim(0));
      return sum(vectors * Var(share.contiguous().to(vectors.value().device())));
    };
    StepResult done = optimizer_step(optimizer, step.batches, product, options);
    done.loss = found.first;
    return done;
  }

  Score evaluate(const Model& model, const EvaluationProgress& progress) override {
    const std::vector<TaskMetric>& metrics = data_.validation.metrics;
    const std::vector<double> values = data_.validation.evaluate(model, communicator_, progress);
    Score score;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      if (metrics[i] == *config_.task.metric) score.value = values[i];
      score.metrics.emplace_back(enum_name(metrics[i]), values[i]);
      score.text += fmt::format("{}{} {}", score.text.empty() ? "" : ", ", enum_name(metrics[i]),
                                metric_text(values[i]));
    }
    return score;
  }

 private:
  /// The loss of all samples of a step, from their vectors [samples · columns, d].
  Var loss_of(const Var& vectors, const EmbeddingStep& step) const {
    EmbeddingTargets targets{{}, step.texts, [&](std::int64_t a, std::int64_t b) {
                               return data_.train->content().alike(a, b);
                             }};
    if (!step.scores.empty())
      targets.scores = Tensor::from(step.scores, {step.samples}).cast(vectors.dtype());
    return embedding_loss(config_.embedding_loss, columns_of(vectors, std::ssize(step.texts)),
                          targets);
  }

  /// The loss of a step, and its gradient with respect to all vectors, [samples · columns, d] on
  /// the CPU. The second pass draws the same dropout masks as this one.
  std::pair<double, Tensor> loss_and_gradient(const Model& model, const EmbeddingStep& step,
                                              const StepOptions& options) const {
    const std::int64_t width = model.config().vector_width(), columns = std::ssize(step.texts),
                       rows = step.samples * columns;
    std::vector<double> all(static_cast<std::size_t>(rows * width));
    DType dtype = DType::f32;
    const std::int64_t size = options_.micro_batch_size;
    const auto compute = [&](std::int64_t number) {
      const NoGrad no_recording;
      const Batch& batch = step.batches[static_cast<std::size_t>(number / options_.world_size)];
      RunContext run{.training = options.dropout, .seed = options.seed, .step = options.step};
      run.sample_ids = batch.sample_ids;
      const Tensor vectors = vectors_of(model, batch.input, run).value();
      dtype = vectors.dtype();
      return vectors.to_doubles();
    };
    communicator_.share((step.samples + size - 1) / size, compute,
                        [&](std::int64_t number, std::span<const double> numbers) {
                          std::ranges::copy(numbers, all.begin() + number * size * columns * width);
                        });
    const Var leaf = Var::leaf(Tensor::from(all, {rows, width}).cast(dtype));
    Tape tape;
    const Var loss = loss_of(leaf, step);
    const double value = loss.value().item();
    tape.backward(loss);
    return {value, leaf.grad()};
  }

  RunConfig config_;
  Communicator& communicator_;
  EmbeddingData data_;
  TaskLoaderOptions options_;
  std::unique_ptr<EmbeddingLoader> loader_;
};

/// Refuses texts of which the loss is constant, and a batch in which no sample has another to be
/// told from.
void require_something_to_learn(const RunConfig& config, const EmbeddingTexts& texts) {
  const EmbeddingLoss loss = config.embedding_loss.name;
  const bool by_order = loss == EmbeddingLoss::cosent || loss == EmbeddingLoss::angle,
             ranks = loss == EmbeddingLoss::multiple_negatives_ranking,
             negatives = texts.roles == TextRoles::pairs && texts.columns() > 2;
  require_input(config.training.batch_size > 1 || !(by_order || (ranks && !negatives)),
                "training.batch_size 1: embedding_loss.name {} compares the samples of a batch; "
                "there is nothing to learn from one",
                enum_name(loss));
  const auto& samples = texts.samples;
  const bool equal_scores = std::ranges::all_of(
      samples, [&](const EmbeddingSample& each) { return each.score == samples[0].score; });
  require_input(!by_order || !equal_scores,
                "task.train: all scores are {:g}, and embedding_loss.name {} compares them; there "
                "is nothing to learn",
                samples[0].score, enum_name(loss));
  const auto has_another = [&](const EmbeddingSample& sample) {
    return std::ranges::any_of(samples, [&](const EmbeddingSample& other) {
      const std::size_t first = other.texts.size() > 1 ? 1 : 0;
      return std::ranges::any_of(std::span(other.texts).subspan(first), [&](std::int64_t text) {
        return !texts.alike(sample.texts[0], text);
      });
    });
  };
  const auto cut = [&](std::int64_t text) {
    return texts.same.empty() ? text : texts.same[static_cast<std::size_t>(text)];
  };
  require_input(
      loss != EmbeddingLoss::triplet || std::ranges::any_of(samples,
                                                            [&](const EmbeddingSample& each) {
                                                              return cut(each.texts[1]) !=
                                                                     cut(each.texts[2]);
                                                            }),
      "task.train: in every sample the positive and the negative are cut to equal tokens; "
      "raise data.sequence_length");
  constexpr std::ptrdiff_t some = 10;  // enough to find one where there is any
  require_input(
      !ranks || std::any_of(samples.begin(), samples.begin() + std::min(some, std::ssize(samples)),
                            has_another),
      "task.train: all samples have a text or a label in common; there is nothing to "
      "tell apart");
}

/// Refuses texts that the loss, the views or the model's dropout cannot use.
void check_training_texts(const RunConfig& config, const EmbeddingTexts& samples) {
  const EmbeddingLossOptions& loss = config.embedding_loss;
  const bool scored = samples.roles == TextRoles::scores;
  require_input(
      scored == (loss.needs_scores()),
      "task.train: its files hold {}, which embedding_loss.name {} cannot learn from; use "
      "{}",
      describe(samples.roles), enum_name(loss.name),
      scored ? "cosent, angle or cosine_similarity" : "multiple_negatives_ranking or triplet");
  require_input(loss.name != EmbeddingLoss::triplet || samples.columns() == 3,
                "task.train: its samples have {} texts, and embedding_loss.name triplet takes 3; "
                "name task.columns.pair and one of task.columns.negatives",
                samples.columns());
  const bool alone = samples.roles == TextRoles::texts;
  require_input(alone || config.task.views == TaskViews::dropout,
                "task.views {}: task.train holds {}, and only texts alone become two views; leave "
                "task.views out",
                enum_name(config.task.views), describe(samples.roles));
  require_input(
      !alone || config.task.views == TaskViews::crops || config.model.hidden_dropout_prob > 0,
      "task.views dropout: without dropout both views of a text are equal; set "
      "model.hidden_dropout_prob, for example to 0.1, or task.views to crops");
}

/// Refuses columns that no file has: each file may have some of them.
void require_columns_of_a_file(const TaskColumns& columns, TextRoles trained,
                               const std::string& held_out) {
  const auto require_one_of = [&](const char* option, const std::optional<std::string>& name,
                                  std::initializer_list<TextRoles> roles) {
    const bool read = std::ranges::any_of(
        roles, [&](TextRoles each) { return trained == each || held_out == describe(each); });
    require_input(
        !name || read,
        "{}: no file of task.train and task.validation has the column '{}'; correct it, or "
        "leave it out",
        option, printable(name.value_or("")));
  };
  require_one_of("task.columns.pair", columns.pair, {TextRoles::pairs, TextRoles::scores});
  require_one_of("task.columns.label", columns.label, {TextRoles::labels, TextRoles::scores});
}

}  // namespace

EmbeddingData read_embedding_data(RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer) {
  require_plain_prompts(*tokenizer, config.model.embedding);
  const TaskSources sources = task_sources(config.task, config.seed);
  EmbeddingTexts texts = read_embedding_texts(config.task, sources.train, *tokenizer);
  check_training_texts(config, texts);
  EmbeddingData data;
  const EmbeddingConfig& embedding = config.model.embedding;
  data.train = std::make_shared<const EmbeddingDataset>(
      std::move(texts), *tokenizer, config.data.sequence_length, embedding.query_prompt,
      embedding.document_prompt, config.task.views);
  const EmbeddingTexts& content = data.train->content();
  require_something_to_learn(config, content);
  data.validation = read_embedding_validation(config, sources.validation, tokenizer);
  require_columns_of_a_file(config.task.columns, content.roles, data.validation.kind);
  data.overlap = count_known(data.validation.digests, content.digests);
  data.tokenizer = std::move(tokenizer);
  const std::vector<TaskMetric>& metrics = data.validation.metrics;
  if (!config.task.metric) config.task.metric = metrics[0];
  std::string names = enum_name(metrics[0]);
  for (std::size_t i = 1; i < metrics.size(); ++i)
    names += (i + 1 < metrics.size() ? ", " : " or ") + std::string(enum_name(metrics[i]));
  require_input(std::ranges::find(metrics, *config.task.metric) != metrics.end(),
                "task.metric {}: task.validation holds {}, which are measured by {}",
                enum_name(*config.task.metric), data.validation.kind, names);
  return data;
}

RunData run_data(const EmbeddingData& data) {
  return {.tokenizer = text_checksum(data.tokenizer->definition()),
          .data = data.train->content().checksum,
          .validation = data.validation.checksum};
}

std::vector<std::string> describe(const EmbeddingData& data) {
  std::string train = "training: " + describe(data.train->content());
  if (data.train->truncated() > 0)
    train += fmt::format("; {} were cut at the end", data.train->truncated());
  return {std::move(train), "validation: " + data.validation.summary};
}

std::vector<std::string> embedding_warnings(const EmbeddingData& data) {
  const EmbeddingTexts& texts = data.train->content();
  std::vector<std::string> lines = texts.skipped.notes;
  add_new_notes(lines, data.validation.notes);
  if (const std::string unknown = describe_unknown(texts.counts); !unknown.empty())
    lines.push_back("training: " + unknown);
  const std::int64_t cut = data.train->truncated(), different = std::ssize(texts.groups);
  if (cut * 10 > different)
    lines.push_back(fmt::format("training: {} of {} texts are cut; raise data.sequence_length", cut,
                                different));
  if (texts.contradictions > 0)
    lines.push_back(fmt::format(
        "training: {} rows name a text as unlike the first that another row gives as alike",
        texts.contradictions));
  if (data.overlap > 0)
    lines.push_back(fmt::format(
        "validation: {} of its pairs are in the training data too; their score is no test",
        data.overlap));
  return lines;
}

std::unique_ptr<Objective> make_embedding_objective(const RunConfig& config, EmbeddingData data,
                                                    Communicator& communicator) {
  return std::make_unique<EmbeddingObjective>(config, std::move(data), communicator);
}

}  // namespace nystrom
