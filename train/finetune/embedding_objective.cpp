#include "train/finetune/embedding_objective.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/checksum.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "nn/embedding_loss.h"
#include "train/config/padding.h"

namespace nystrom {
namespace {

std::string checksum_of(const EmbeddingDataset& data) {
  Checksum checksum;
  const auto add = [&](const auto& values) {
    checksum.update(values.data(), values.size() * sizeof(values[0]));
  };
  for (const auto& text : data.texts()) {
    const std::size_t size = text.size();
    checksum.update(&size, sizeof size);
    add(text);
  }
  for (const EmbeddingSample& sample : data.samples()) {
    add(sample.texts);
    const double numbers[] = {sample.score, static_cast<double>(sample.label)};
    checksum.update(numbers, sizeof numbers);
  }
  return checksum.hex();
}

std::vector<TaskMetric> metrics_of(TextRoles roles) {
  if (roles == TextRoles::scores) return {TaskMetric::spearman, TaskMetric::pearson};
  if (roles == TextRoles::pairs) return {TaskMetric::mrr, TaskMetric::accuracy};
  return {};
}

/// The vectors of a model, [rows, d]: of length 1 where its options say so.
Var vectors_of(const Model& model, const ModelInput& input, const RunContext& run = {}) {
  const EmbeddingConfig& options = model.config().embedding;
  const Var vectors = model.sentence_vectors(input, options.pooling, run);
  return options.normalize ? unit_rows(vectors) : vectors;
}

/// Column c of vectors [b · columns, d], whose rows are sample by sample: [b, d].
Var column_of(const Var& vectors, std::int64_t columns, std::int64_t c) {
  const std::int64_t samples = vectors.dim(0) / columns, width = vectors.dim(1);
  return reshape(slice(reshape(vectors, {samples, columns, width}), 1, c, c + 1), {samples, width});
}

std::vector<Var> columns_of(const Var& vectors, std::int64_t count) {
  std::vector<Var> columns;
  for (std::int64_t c = 0; c < count; ++c) columns.push_back(column_of(vectors, count, c));
  return columns;
}

/// Puts the numbers of all processes into `all`. Each process sends pairs of a place and its
/// numbers, `stride` long.
class Exchange {
 public:
  explicit Exchange(std::int64_t stride) : stride_(static_cast<std::size_t>(stride)) {}
  /// The numbers at places first, first + 1, ….
  void add(std::int64_t first, const std::vector<double>& numbers) {
    for (std::size_t begin = 0; begin < numbers.size(); begin += stride_) {
      own_.push_back(static_cast<double>(first++));
      own_.insert(own_.end(), numbers.begin() + static_cast<std::ptrdiff_t>(begin),
                  numbers.begin() + static_cast<std::ptrdiff_t>(begin + stride_));
    }
  }
  /// All numbers in the order of their places, of which there are `places`.
  std::vector<double> all(std::int64_t places, Communicator& communicator) const {
    std::vector<double> result(static_cast<std::size_t>(places) * stride_);
    const std::string bytes(reinterpret_cast<const char*>(own_.data()),
                            own_.size() * sizeof(double));
    for (const std::string& each : communicator.gather(bytes)) {
      if (each.empty()) continue;  // a process without micro-batches
      std::vector<double> numbers(each.size() / sizeof(double));
      std::memcpy(numbers.data(), each.data(), each.size());
      for (std::size_t i = 0; i < numbers.size(); i += stride_ + 1)
        std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(i + 1), stride_,
                    result.begin() + static_cast<std::ptrdiff_t>(
                                         static_cast<std::size_t>(numbers[i]) * stride_));
    }
    return result;
  }

 private:
  std::size_t stride_;
  std::vector<double> own_;
};

/// See make_embedding_objective.
class EmbeddingObjective : public Objective {
 public:
  EmbeddingObjective(const RunConfig& config, EmbeddingData data, Communicator& communicator)
      : config_(config), communicator_(communicator), data_(std::move(data)) {
    options_.batch_size = config.training.batch_size;
    options_.micro_batch_size = config.training.micro_batch_size;
    options_.padding = padding_of(config.model, config.data.sequence_length);
    options_.seed = static_cast<std::uint64_t>(config.seed);
    options_.rank = communicator.rank();
    options_.world_size = communicator.size();
  }

  DataIdentity identity() const override {
    return {text_checksum(data_.tokenizer->definition()), checksum_of(*data_.train),
            checksum_of(*data_.validation), "task.train", "task.validation"};
  }
  std::int64_t samples() const override { return std::ssize(data_.train->samples()); }
  std::string metric_name() const override { return enum_name(*config_.task.metric); }
  bool higher_is_better() const override { return true; }
  std::vector<TokenizerFile> tokenizer_files() const override {
    return data_.tokenizer->files(config_.data.sequence_length);
  }
  std::vector<int> micro_batch_ranks() const override {
    return nystrom::micro_batch_ranks(options_);
  }
  void start(std::int64_t batch) override {
    loader_ = std::make_unique<EmbeddingLoader>(data_.train, *data_.tokenizer, config_.task.views,
                                                options_, batch);
  }

  ObjectiveStep step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const EmbeddingStep step = loader_->next();
    ObjectiveStep done;
    std::vector<Tensor> sample_ids;
    for (const Batch& batch : step.batches) {
      done.tokens += batch.tokens;
      sample_ids.push_back(batch.sample_ids);
    }
    if (step.samples <= options_.micro_batch_size) {
      const auto loss = [&](std::size_t, const RunContext& run) {
        return loss_of(vectors_of(model, step.batches[0].input, run), step);
      };
      done.result = optimizer_step(optimizer, sample_ids, loss, options);
      return done;
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
    done.result = optimizer_step(optimizer, sample_ids, product, options);
    done.result.loss = found.first;
    return done;
  }

  Score evaluate(const Model& model, const EvaluationProgress& progress) override {
    const auto texts = std::ssize(data_.validation->texts());
    const EmbeddingScores scores = evaluate_embeddings(
        model, *data_.validation, *data_.tokenizer, options_.padding, options_.micro_batch_size,
        communicator_, [&](std::int64_t done) { progress(done, texts); });
    Score score;
    for (const auto& [metric, value] : scores.values) {
      if (metric == *config_.task.metric) score.value = value;
      score.metrics.emplace_back(enum_name(metric), value);
      score.text +=
          fmt::format("{}{} {:.4f}", score.text.empty() ? "" : ", ", enum_name(metric), value);
    }
    return score;
  }

 private:
  /// The loss of all samples of a step, from their vectors [samples · columns, d].
  Var loss_of(const Var& vectors, const EmbeddingStep& step) const {
    EmbeddingTargets targets{{}, step.alike};
    if (!step.scores.empty())
      targets.scores = Tensor::from(step.scores, {step.samples}).cast(vectors.dtype());
    return embedding_loss(config_.embedding_loss, columns_of(vectors, std::ssize(step.alike)),
                          targets);
  }

  /// The loss of a step, and its gradient with respect to all vectors, [samples · columns, d] on
  /// the CPU. The second pass draws the same dropout masks as this one.
  std::pair<double, Tensor> loss_and_gradient(const Model& model, const EmbeddingStep& step,
                                              const StepOptions& options) const {
    const std::int64_t width = model.config().vector_width(), columns = std::ssize(step.alike),
                       rows = step.samples * columns;
    Exchange exchange(width);
    DType dtype = DType::f32;
    for (std::size_t part = 0; part < step.batches.size(); ++part) {
      const NoGrad no_recording;
      RunContext run{.training = options.dropout, .seed = options.seed, .step = options.step};
      run.sample_ids = step.batches[part].sample_ids;
      const Tensor vectors = vectors_of(model, step.batches[part].input, run).value();
      dtype = vectors.dtype();
      exchange.add(step.first[part] * columns, vectors.contiguous().to_doubles());
    }
    const Var leaf =
        Var::leaf(Tensor::from(exchange.all(rows, communicator_), {rows, width}).cast(dtype));
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

/// The vectors of all texts of `data`, of length 1: [texts, d] f64 on the CPU.
Tensor unit_vectors(const Model& model, const EmbeddingDataset& data, const Tokenizer& tokenizer,
                    const PaddingOptions& padding, std::int64_t batch_size,
                    Communicator& communicator, const std::function<void(std::int64_t)>& progress) {
  const auto count = std::ssize(data.texts());
  std::vector<std::size_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return data.texts()[i].size(); });
  const std::int64_t width = model.config().vector_width();
  Exchange exchange(width);
  for (std::int64_t begin = batch_size * communicator.rank(); begin < count;
       begin += batch_size * communicator.size()) {
    const std::int64_t end = std::min(begin + batch_size, count);
    std::vector<WrappedIds> rows;
    for (std::int64_t i = begin; i < end; ++i)
      rows.push_back(tokenizer.wrap(data.texts()[order[static_cast<std::size_t>(i)]]));
    std::vector<const WrappedIds*> each;
    for (const WrappedIds& row : rows) each.push_back(&row);
    const ModelInput input = padded_rows(each, tokenizer.special().pad, padding);
    exchange.add(begin, unit_rows(vectors_of(model, input)).value().contiguous().to_doubles());
    if (progress) progress(end);
  }
  const std::vector<double> sorted = exchange.all(count, communicator);
  std::vector<double> vectors(sorted.size());
  const auto stride = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(sorted.begin() + static_cast<std::ptrdiff_t>(i * stride), stride,
                vectors.begin() + static_cast<std::ptrdiff_t>(order[i] * stride));
  return Tensor::from(vectors, {count, width});
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

EmbeddingScores evaluate_embeddings(const Model& model, const EmbeddingDataset& data,
                                    const Tokenizer& tokenizer, const PaddingOptions& padding,
                                    std::int64_t batch_size, Communicator& communicator,
                                    const std::function<void(std::int64_t)>& progress) {
  const Tensor vectors =
      unit_vectors(model, data, tokenizer, padding, batch_size, communicator, progress);
  const auto width = static_cast<std::size_t>(vectors.dim(1));
  const auto row = [&](std::int64_t text) {
    return std::span(vectors.data<double>() + text * vectors.dim(1), width);
  };
  if (data.roles() == TextRoles::scores) {
    std::vector<double> similarities, scores;
    for (const EmbeddingSample& sample : data.samples()) {
      similarities.push_back(dot(row(sample.texts[0]), row(sample.texts[1])));
      scores.push_back(sample.score);
    }
    return {{{TaskMetric::spearman, spearman_correlation(scores, similarities)},
             {TaskMetric::pearson, pearson_correlation(scores, similarities)}}};
  }
  double reciprocal_ranks = 0, first = 0;
  for (const EmbeddingSample& sample : data.samples()) {
    const double own = dot(row(sample.texts[0]), row(sample.texts[1]));
    std::int64_t better = 0;
    for (const EmbeddingSample& other : data.samples())
      better += other.texts[1] != sample.texts[1] &&
                dot(row(sample.texts[0]), row(other.texts[1])) >= own;
    reciprocal_ranks += 1 / static_cast<double>(1 + better);
    first += better == 0;
  }
  const auto count = static_cast<double>(data.samples().size());
  return {{{TaskMetric::mrr, reciprocal_ranks / count}, {TaskMetric::accuracy, first / count}}};
}

EmbeddingData read_embedding_data(RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer) {
  const EmbeddingConfig& embedding = config.model.embedding;
  const EmbeddingTextOptions options{config.data.sequence_length, embedding.query_prompt,
                                     embedding.document_prompt};
  const auto read = [&](const std::vector<std::string>& patterns) {
    return std::make_shared<const EmbeddingDataset>(config.task, patterns, *tokenizer, options);
  };
  EmbeddingData data{read(config.task.train), read(config.task.validation), std::move(tokenizer)};
  const EmbeddingLossOptions& loss = config.embedding_loss;
  const bool scored = data.train->roles() == TextRoles::scores;
  require_input(
      scored == (loss.target() == EmbeddingTarget::scores),
      "task.train: its files hold {}, which embedding_loss.name {} cannot learn from; use "
      "{}",
      describe(data.train->roles()), enum_name(loss.name),
      scored ? "cosent, angle or cosine_similarity" : "multiple_negatives_ranking or triplet");
  require_input(loss.name != EmbeddingLoss::triplet || data.train->columns() == 3,
                "task.train: its samples have {} texts, and embedding_loss.name triplet takes 3; "
                "name task.columns.pair and one of task.columns.negatives",
                data.train->columns());
  const std::vector<TaskMetric> metrics = metrics_of(data.validation->roles());
  require_input(!metrics.empty(),
                "task.validation: its files hold {}, which say nothing about similarity; give "
                "pairs (task.columns.pair), with or without a score (task.columns.label)",
                describe(data.validation->roles()));
  if (!config.task.metric) config.task.metric = metrics[0];
  require_input(std::ranges::find(metrics, *config.task.metric) != metrics.end(),
                "task.metric {}: task.validation holds {}, which are measured by {} or {}",
                enum_name(*config.task.metric), describe(data.validation->roles()),
                enum_name(metrics[0]), enum_name(metrics[1]));
  return data;
}

std::vector<std::string> describe(const EmbeddingData& data) {
  std::vector<std::string> lines;
  for (const auto& [name, set] :
       {std::pair("training", data.train.get()), std::pair("validation", data.validation.get())}) {
    std::string line = fmt::format("{}: {} {}, {} different", name, set->samples().size(),
                                   describe(set->roles()), set->texts().size());
    if (set->truncated() > 0) line += fmt::format("; {} were cut at the end", set->truncated());
    if (set->skipped().count > 0)
      line += fmt::format("; {} rows were skipped", set->skipped().count);
    lines.push_back(line);
  }
  return lines;
}

std::unique_ptr<Objective> make_embedding_objective(const RunConfig& config, EmbeddingData data,
                                                    Communicator& communicator) {
  return std::make_unique<EmbeddingObjective>(config, std::move(data), communicator);
}

}  // namespace nystrom
