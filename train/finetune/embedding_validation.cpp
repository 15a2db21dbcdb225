#include "train/finetune/embedding_validation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/base/checksum.h"
#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_loader.h"
#include "data/tasks/task_metrics.h"
#include "nn/embedding_loss.h"
#include "train/config/padding.h"
#include "train/finetune/row_exchange.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Pairs of texts, with or without a score.
class PairValidation : public EmbeddingValidation {
 public:
  PairValidation(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)),
        data_(config.task, config.task.validation, *tokenizer_, embedding_text_options(config)),
        padding_(padding_of(config.model, config.data.sequence_length)),
        batch_size_(config.training.micro_batch_size) {
    const bool measurable = data_.roles() == TextRoles::scores || data_.roles() == TextRoles::pairs;
    require_input(measurable,
                  "task.validation: its files hold {}, which say nothing about similarity; give "
                  "pairs (task.columns.pair), with or without a score (task.columns.label)",
                  describe(data_.roles()));
  }

  std::string kind() const override { return describe(data_.roles()); }
  std::string summary() const override { return describe(data_); }
  std::string checksum() const override { return data_.checksum(); }
  std::vector<TaskMetric> metrics() const override {
    if (data_.roles() == TextRoles::scores) return {TaskMetric::spearman, TaskMetric::pearson};
    return {TaskMetric::mrr, TaskMetric::accuracy};
  }

  std::vector<double> evaluate(const Model& model, Communicator& communicator,
                               const Progress& progress) const override {
    const Tensor vectors = unit_vectors(model, communicator, progress);
    return data_.roles() == TextRoles::scores ? correlations(vectors) : ranks(vectors);
  }

 private:
  Tensor unit_vectors(const Model& model, Communicator& communicator,
                      const Progress& progress) const;

  /// The vector of text `text`.
  static std::span<const double> row(const Tensor& vectors, std::int64_t text) {
    return {vectors.data<double>() + text * vectors.dim(1),
            static_cast<std::size_t>(vectors.dim(1))};
  }
  std::vector<double> correlations(const Tensor& vectors) const;
  std::vector<double> ranks(const Tensor& vectors) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  EmbeddingDataset data_;
  PaddingOptions padding_;
  std::int64_t batch_size_;
};

/// The vectors of all texts, of length 1: [texts, d] f64 on the CPU. Texts of similar length share
/// a batch.
Tensor PairValidation::unit_vectors(const Model& model, Communicator& communicator,
                                    const Progress& progress) const {
  const auto count = std::ssize(data_.texts());
  std::vector<std::size_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return data_.texts()[i].size(); });
  const std::int64_t width = model.config().vector_width();
  RowExchange exchange(width);
  for (std::int64_t begin = batch_size_ * communicator.rank(); begin < count;
       begin += batch_size_ * communicator.size()) {
    const std::int64_t end = std::min(begin + batch_size_, count);
    std::vector<WrappedIds> rows;
    for (std::int64_t i = begin; i < end; ++i)
      rows.push_back(tokenizer_->wrap(data_.texts()[order[static_cast<std::size_t>(i)]]));
    std::vector<const WrappedIds*> each;
    for (const WrappedIds& row : rows) each.push_back(&row);
    const ModelInput input = padded_rows(each, tokenizer_->special().pad, padding_);
    const Var vectors = model.sentence_vectors(input, model.config().embedding.pooling);
    exchange.add(begin, unit_rows(vectors).value().contiguous().to_doubles());
    progress(end, count);
  }
  const std::vector<double> sorted = exchange.all(count, communicator);
  std::vector<double> vectors(sorted.size());
  const auto stride = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(sorted.begin() + static_cast<std::ptrdiff_t>(i * stride), stride,
                vectors.begin() + static_cast<std::ptrdiff_t>(order[i] * stride));
  return Tensor::from(vectors, {count, width});
}

std::vector<double> PairValidation::correlations(const Tensor& vectors) const {
  std::vector<double> similarities, scores;
  for (const EmbeddingSample& sample : data_.samples()) {
    similarities.push_back(dot(row(vectors, sample.texts[0]), row(vectors, sample.texts[1])));
    scores.push_back(sample.score);
  }
  return {spearman_correlation(scores, similarities), pearson_correlation(scores, similarities)};
}

std::vector<double> PairValidation::ranks(const Tensor& vectors) const {
  double reciprocal_ranks = 0, first = 0;
  for (const EmbeddingSample& sample : data_.samples()) {
    const auto text = row(vectors, sample.texts[0]);
    const double own = dot(text, row(vectors, sample.texts[1]));
    if (std::isnan(own)) return {own, own};  // no rank: such a model is not the best
    std::int64_t better = 0;
    for (const EmbeddingSample& other : data_.samples())
      better += other.texts[1] != sample.texts[1] && dot(text, row(vectors, other.texts[1])) >= own;
    reciprocal_ranks += 1 / static_cast<double>(1 + better);
    first += better == 0;
  }
  const auto count = static_cast<double>(data_.samples().size());
  return {reciprocal_ranks / count, first / count};
}

/// Queries whose documents are to be found.
class RetrievalValidation : public EmbeddingValidation {
 public:
  RetrievalValidation(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)),
        set_(read_validation_folder(config.task)),
        sequence_length_(config.data.sequence_length),
        batch_size_(config.training.micro_batch_size) {}

  std::string kind() const override { return "queries with documents"; }
  std::string summary() const override {
    return fmt::format("{} queries of qrels/{}.tsv and the documents in {}", set_.queries.size(),
                       set_.split, printable_path(set_.corpus));
  }
  std::string checksum() const override;
  std::vector<TaskMetric> metrics() const override {
    return {TaskMetric::ndcg_at_10, TaskMetric::mrr_at_10, TaskMetric::recall_at_100,
            TaskMetric::map_at_100};
  }

  std::vector<double> evaluate(const Model& model, Communicator& communicator,
                               const Progress& progress) const override {
    const auto embedder = [&](PromptKind prompt) {
      EmbeddingOptions options = embedding_options(model.config(), prompt, sequence_length_);
      options.batch_size = batch_size_;
      return TextEmbedder(model, *tokenizer_, std::move(options), &communicator);
    };
    TextEmbedder queries = embedder(PromptKind::query), documents = embedder(PromptKind::document);
    const RankingScores scores = evaluate_retrieval(queries, documents, set_, progress).scores;
    return {scores.ndcg_at_10, scores.mrr_at_10, scores.recall_at_100, scores.map_at_100};
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  RetrievalSet set_;
  std::int64_t sequence_length_, batch_size_;
};

std::string RetrievalValidation::checksum() const {
  std::string text = file_checksum(set_.corpus);
  for (std::size_t query = 0; query < set_.queries.size(); ++query) {
    text += fmt::format("\n{}\t{}", set_.query_ids[query], text_checksum(set_.queries[query]));
    for (const auto& [document, relevance] : set_.judged[query])
      text += fmt::format("\t{}\t{}", document, relevance);
  }
  return text_checksum(text);
}

}  // namespace

EmbeddingTextOptions embedding_text_options(const RunConfig& config) {
  const EmbeddingConfig& embedding = config.model.embedding;
  return {config.data.sequence_length, embedding.query_prompt, embedding.document_prompt};
}

bool validates_by_retrieval(const TaskConfig& task) {
  return task.kind == TaskKind::embeddings && task.validation.size() == 1 &&
         fs::is_directory(task.validation[0]);
}

RetrievalSet read_validation_folder(const TaskConfig& task) {
  const fs::path folder = task.validation[0];
  const bool dev = fs::is_regular_file(folder / "qrels/dev.tsv");
  return read_retrieval(folder, dev ? std::optional<std::string>("dev") : std::nullopt);
}

std::shared_ptr<const EmbeddingValidation> read_embedding_validation(
    const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer) {
  if (validates_by_retrieval(config.task))
    return std::make_shared<RetrievalValidation>(config, std::move(tokenizer));
  return std::make_shared<PairValidation>(config, std::move(tokenizer));
}

}  // namespace nystrom
