#include "train/objectives/embedding_objective.h"

#include <algorithm>
#include <filesystem>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "data/tasks/task_scorer.h"
#include "train/objectives/text_embedder.h"
#include "train/objectives/vector_evaluation.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// An embedder of a run's model, as `nystrom embed` has it: long texts are read in windows. Where
/// vectors are compared by cosine they have length 1, so that products compare them.
TextEmbedder embedder_of(const RunConfig& config, const Model& model, const Tokenizer& tokenizer,
                         PromptKind prompt, Communicator& communicator) {
  EmbeddingOptions options = embedding_options(model.config(), prompt, config.data.sequence_length);
  options.batch_size = config.training.micro_batch_size;
  options.normalize |= model.config().embedding.similarity == Similarity::cosine;
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

/// The different texts of a column of pairs.
ColumnVectors texts_of_column(const EmbeddingTexts& pairs, std::size_t column) {
  ColumnVectors result;
  for (const EmbeddingSample& sample : pairs.samples) result.texts.push_back(sample.texts[column]);
  std::ranges::sort(result.texts);
  result.texts.erase(std::unique(result.texts.begin(), result.texts.end()), result.texts.end());
  return result;
}

std::vector<double> pair_correlations(Similarity by, const EmbeddingTexts& pairs,
                                      const ColumnVectors& first, const ColumnVectors& second) {
  std::vector<double> similarities, scores;
  for (const EmbeddingSample& sample : pairs.samples) {
    similarities.push_back(similarity(by, first.vectors, first.row(sample.texts[0]), second.vectors,
                                      second.row(sample.texts[1])));
    scores.push_back(sample.score);
  }
  return {spearman_correlation(scores, similarities), pearson_correlation(scores, similarities)};
}

std::vector<double> pair_ranks(const EmbeddingTexts& pairs, const ColumnVectors& first,
                               const ColumnVectors& second, const std::function<void()>& check) {
  double reciprocal_ranks = 0, found_first = 0;
  for (const EmbeddingSample& sample : pairs.samples) {
    check();
    const std::int64_t text = first.row(sample.texts[0]);
    const auto product = [&](std::int64_t row) {
      return inner_product(first.vectors, text, second.vectors, row);
    };
    const double own = product(second.row(sample.texts[1]));
    std::int64_t better = 0;
    for (std::int64_t row = 0; row < std::ssize(second.texts); ++row) {
      const std::int64_t other = second.texts[static_cast<std::size_t>(row)];
      // Other positives of a text do not compete.
      better +=
          other != sample.texts[1] && product(row) >= own && !pairs.alike(sample.texts[0], other);
    }
    reciprocal_ranks += 1 / static_cast<double>(1 + better);
    found_first += better == 0;
  }
  const auto count = static_cast<double>(pairs.samples.size());
  return {reciprocal_ranks / count, found_first / count};
}

/// Pairs of texts, with or without a score.
EmbeddingValidation of_pairs(const RunConfig& config, const ExampleSource& source,
                             const std::shared_ptr<const Tokenizer>& tokenizer) {
  const char* option =
      config.task.validation.empty() ? "task.validation_fraction" : "task.validation";
  constexpr const char* advice =
      "which say nothing about similarity; name pairs (task.columns.pair) in task.validation, with "
      "or without a score (task.columns.label)";
  require_input(config.task.columns.pair.has_value(), "{}: the files hold single texts, {}", option,
                advice);
  TaskConfig task = config.task;
  // No measure reads them, but those of a share decide which rows can be read.
  if (!task.validation.empty()) task.columns.negatives = {};
  EmbeddingTexts read = read_embedding_texts(task, source, *tokenizer);
  read.tokens = {};  // vectors are made of the texts
  const auto data = std::make_shared<const EmbeddingTexts>(std::move(read));
  const EmbeddingTexts& pairs = *data;
  const bool scored = pairs.roles == TextRoles::scores;
  require_input(scored || pairs.roles == TextRoles::pairs, "{}: the files hold {}, {}", option,
                describe(pairs.roles), advice);
  EmbeddingValidation validation{describe(pairs.roles), describe(pairs), pairs.checksum};
  require_ranked(config.model.embedding.similarity, option);
  validation.metrics = scored ? std::vector{TaskMetric::spearman, TaskMetric::pearson}
                              : std::vector{TaskMetric::mrr, TaskMetric::accuracy};
  if (scored) {
    std::vector<double> scores;
    for (const EmbeddingSample& sample : pairs.samples) scores.push_back(sample.score);
    require_different_values(scores, TaskMetric::spearman, "validation");
  } else {
    const auto firsts = texts_of_column(pairs, 0).texts, seconds = texts_of_column(pairs, 1).texts;
    require_input(seconds.size() > 1,
                  "{}: all pairs have one second text, which is always found; give pairs of others",
                  option);
    require_input(std::ranges::any_of(firsts,
                                      [&](std::int64_t text) {
                                        return std::ranges::any_of(
                                            seconds, [&](std::int64_t other) {
                                              return !pairs.alike(text, other);
                                            });
                                      }),
                  "{}: every second text is a pair of every first one, so that any is found; give "
                  "pairs of others",
                  option);
  }
  validation.digests = pairs.digests;
  validation.notes = pairs.skipped.notes;
  if (!config.task.columns.negatives.empty())
    std::erase_if(validation.notes, [](const std::string& note) {
      return note.find("task.columns.negatives") != note.npos;
    });
  const std::int64_t itself = std::ranges::count_if(
      pairs.samples, [](const EmbeddingSample& each) { return each.texts[0] == each.texts[1]; });
  require_input(scored || itself < std::ssize(pairs.samples),
                "{}: every pair is a text and itself, which is always found; give pairs of others",
                option);
  if (!scored && itself > 0)
    validation.notes.push_back(
        fmt::format("validation: {} pairs are a text and itself, which is always found", itself));
  validation.evaluate = [=](const Model& model, Communicator& communicator,
                            const Objective::EvaluationProgress& progress) {
    ColumnVectors first = texts_of_column(*data, 0), second = texts_of_column(*data, 1);
    const std::int64_t total = std::ssize(first.texts) + std::ssize(second.texts);
    std::int64_t before = 0;
    for (const PromptKind prompt : {PromptKind::query, PromptKind::document}) {
      ColumnVectors& column = prompt == PromptKind::query ? first : second;
      TextEmbedder embedder = embedder_of(config, model, *tokenizer, prompt, communicator);
      std::vector<std::string> texts;
      for (const std::int64_t text : column.texts)
        texts.push_back(data->texts[static_cast<std::size_t>(text)]);
      column.vectors =
          embed_all(embedder, texts, [&](std::int64_t done) { progress(before + done, total); });
      before += std::ssize(texts);
    }
    return scored ? pair_correlations(model.config().embedding.similarity, *data, first, second)
                  : pair_ranks(*data, first, second, [&] { progress(total, total); });
  };
  return validation;
}

/// Queries whose documents are to be found.
EmbeddingValidation of_queries(const RunConfig& config,
                               const std::shared_ptr<const Tokenizer>& tokenizer) {
  require_ranked(config.model.embedding.similarity, "task.validation");
  const auto set = std::make_shared<const RetrievalSet>(read_validation_folder(config.task));
  EmbeddingValidation validation{
      "queries with documents",
      fmt::format("{} queries of qrels/{}.tsv and the documents in {}", set->queries.size(),
                  set->split, printable_path(set->corpus)),
      checksum_of(*set)};
  validation.metrics = {ranking_metrics.begin(), ranking_metrics.end()};
  validation.notes = set->notes;
  validation.evaluate = [=](const Model& model, Communicator& communicator,
                            const Objective::EvaluationProgress& progress) {
    const auto embedder = [&](PromptKind prompt) {
      return embedder_of(config, model, *tokenizer, prompt, communicator);
    };
    TextEmbedder queries = embedder(PromptKind::query), documents = embedder(PromptKind::document);
    const RankingScores scores = evaluate_retrieval(queries, documents, *set, progress);
    return std::vector<double>(scores.begin(), scores.end());
  };
  return validation;
}

}  // namespace

bool validates_by_retrieval(const TaskConfig& task) {
  return task.kind == TaskKind::embeddings && task.validation.size() == 1 &&
         fs::is_directory(task.validation[0]);
}

RetrievalSet read_validation_folder(const TaskConfig& task) {
  const fs::path folder = task.validation[0];
  const bool dev = fs::is_regular_file(folder / "qrels/dev.tsv");
  return read_retrieval(folder, dev ? std::optional<std::string>("dev") : std::nullopt);
}

EmbeddingValidation read_embedding_validation(const RunConfig& config, const ExampleSource& source,
                                              std::shared_ptr<const Tokenizer> tokenizer) {
  return validates_by_retrieval(config.task) ? of_queries(config, tokenizer)
                                             : of_pairs(config, source, tokenizer);
}

}  // namespace nystrom
