#include "train/objectives/embedding_validation.h"

#include <algorithm>
#include <filesystem>

#include "core/base/checksum.h"
#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "train/objectives/text_blocks.h"
#include "train/objectives/vector_evaluation.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// An embedder of a run's model, as `nystrom embed` has it: long texts are read in windows.
TextEmbedder embedder_of(const RunConfig& config, const Model& model, const Tokenizer& tokenizer,
                         PromptKind prompt, Communicator& communicator) {
  EmbeddingOptions options = embedding_options(model.config(), prompt, config.data.sequence_length);
  options.batch_size = config.training.micro_batch_size;
  return TextEmbedder(model, tokenizer, std::move(options), &communicator);
}

/// The different texts of a column, and their vectors.
struct ColumnVectors {
  std::vector<std::int64_t> texts;  ///< their numbers, ascending
  Tensor vectors;                   ///< [texts, d] f32

  /// The row of a text.
  std::int64_t row(std::int64_t text) const {
    return std::ranges::lower_bound(texts, text) - texts.begin();
  }
};

/// Pairs of texts, with or without a score.
class PairValidation : public EmbeddingValidation {
 public:
  PairValidation(const RunConfig& config, const ExampleSource& source,
                 std::shared_ptr<const Tokenizer> tokenizer)
      : config_(config),
        tokenizer_(std::move(tokenizer)),
        data_(read_embedding_texts(config.task, source)) {
    const bool measurable = is_scored() || data_.samples.roles == TextRoles::pairs;
    require_input(measurable,
                  "task.validation: its files hold {}, which say nothing about similarity; give "
                  "pairs (task.columns.pair), with or without a score (task.columns.label)",
                  describe(data_.samples.roles));
  }

  std::string kind() const override { return describe(data_.samples.roles); }
  std::string summary() const override { return describe(data_.samples); }
  std::string checksum() const override { return data_.samples.checksum; }
  std::vector<std::string> notes() const override { return data_.samples.skipped.notes; }
  std::int64_t overlap(const EmbeddingSamples& train) const override {
    std::vector<Digest> known = train.digests;
    std::ranges::sort(known);
    return std::ranges::count_if(data_.samples.digests, [&](const Digest& digest) {
      return std::ranges::binary_search(known, digest);
    });
  }
  std::vector<TaskMetric> metrics() const override {
    if (is_scored()) return {TaskMetric::spearman, TaskMetric::pearson};
    return {TaskMetric::mrr, TaskMetric::accuracy};
  }

  std::vector<double> evaluate(const Model& model, Communicator& communicator,
                               const Progress& progress) const override {
    std::vector<ColumnVectors> columns = {texts_of_column(0), texts_of_column(1)};
    const std::int64_t total = std::ssize(columns[0].texts) + std::ssize(columns[1].texts);
    std::int64_t before = 0;
    for (const PromptKind prompt : {PromptKind::query, PromptKind::document}) {
      ColumnVectors& column = columns[prompt == PromptKind::query ? 0 : 1];
      TextEmbedder embedder = embedder_of(config_, model, *tokenizer_, prompt, communicator);
      std::vector<std::string> texts;
      for (const std::int64_t text : column.texts)
        texts.push_back(data_.texts[static_cast<std::size_t>(text)]);
      column.vectors =
          embed_all(embedder, texts, [&](std::int64_t done) { progress(before + done, total); });
      before += std::ssize(texts);
    }
    return is_scored() ? correlations(columns[0], columns[1]) : ranks(columns[0], columns[1]);
  }

 private:
  bool is_scored() const { return data_.samples.roles == TextRoles::scores; }

  ColumnVectors texts_of_column(std::size_t column) const {
    ColumnVectors result;
    for (const EmbeddingSample& sample : data_.samples.samples)
      result.texts.push_back(sample.texts[column]);
    std::ranges::sort(result.texts);
    result.texts.erase(std::unique(result.texts.begin(), result.texts.end()), result.texts.end());
    return result;
  }
  std::vector<double> correlations(const ColumnVectors& first, const ColumnVectors& second) const;
  std::vector<double> ranks(const ColumnVectors& first, const ColumnVectors& second) const;

  RunConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  EmbeddingTexts data_;
};

std::vector<double> PairValidation::correlations(const ColumnVectors& first,
                                                 const ColumnVectors& second) const {
  std::vector<double> similarities, scores;
  for (const EmbeddingSample& sample : data_.samples.samples) {
    similarities.push_back(cosine(first.vectors, first.row(sample.texts[0]), second.vectors,
                                  second.row(sample.texts[1])));
    scores.push_back(sample.score);
  }
  return {spearman_correlation(scores, similarities), pearson_correlation(scores, similarities)};
}

std::vector<double> PairValidation::ranks(const ColumnVectors& first,
                                          const ColumnVectors& second) const {
  double reciprocal_ranks = 0, found_first = 0;
  for (const EmbeddingSample& sample : data_.samples.samples) {
    const std::int64_t text = first.row(sample.texts[0]);
    const auto similarity = [&](std::int64_t row) {
      return cosine(first.vectors, text, second.vectors, row);
    };
    const double own = similarity(second.row(sample.texts[1]));
    std::int64_t better = 0;
    for (std::int64_t row = 0; row < std::ssize(second.texts); ++row) {
      const std::int64_t other = second.texts[static_cast<std::size_t>(row)];
      // Other positives of a text do not compete.
      better += other != sample.texts[1] && similarity(row) >= own &&
                !data_.samples.alike(sample.texts[0], other);
    }
    reciprocal_ranks += 1 / static_cast<double>(1 + better);
    found_first += better == 0;
  }
  const auto count = static_cast<double>(data_.samples.samples.size());
  return {reciprocal_ranks / count, found_first / count};
}

/// Queries whose documents are to be found.
class RetrievalValidation : public EmbeddingValidation {
 public:
  RetrievalValidation(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer)
      : config_(config),
        tokenizer_(std::move(tokenizer)),
        set_(read_validation_folder(config.task)) {}

  std::string kind() const override { return "queries with documents"; }
  std::string summary() const override {
    return fmt::format("{} queries of qrels/{}.tsv and the documents in {}", set_.queries.size(),
                       set_.split, printable_path(set_.corpus));
  }
  std::string checksum() const override;
  std::vector<std::string> notes() const override { return set_.notes; }
  std::vector<TaskMetric> metrics() const override {
    return {ranking_metrics.begin(), ranking_metrics.end()};
  }

  std::vector<double> evaluate(const Model& model, Communicator& communicator,
                               const Progress& progress) const override {
    const auto embedder = [&](PromptKind prompt) {
      return embedder_of(config_, model, *tokenizer_, prompt, communicator);
    };
    TextEmbedder queries = embedder(PromptKind::query), documents = embedder(PromptKind::document);
    const RankingScores scores = evaluate_retrieval(queries, documents, set_, progress);
    return {scores.begin(), scores.end()};
  }

 private:
  RunConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  RetrievalSet set_;
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
  return {config.data.sequence_length, embedding.query_prompt, embedding.document_prompt,
          config.task.views};
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
    const RunConfig& config, const ExampleSource& source,
    std::shared_ptr<const Tokenizer> tokenizer) {
  if (validates_by_retrieval(config.task))
    return std::make_shared<RetrievalValidation>(config, std::move(tokenizer));
  return std::make_shared<PairValidation>(config, source, std::move(tokenizer));
}

}  // namespace nystrom
