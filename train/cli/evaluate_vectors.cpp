#include "train/cli/evaluate_vectors.h"

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/match_files.h"
#include "data/text/text.h"
#include "train/objectives/retrieval.h"
#include "train/objectives/text_classes.h"
#include "train/objectives/text_pairs.h"

namespace nystrom {
namespace {

using Scores = std::vector<std::pair<const char*, double>>;

void print(const nlohmann::ordered_json& counts, const Scores& scores, bool json) {
  if (json) {
    nlohmann::ordered_json object = counts;
    for (const auto& [name, value] : scores) object[name] = value;
    fmt::print("{}\n", object.dump());
    return;
  }
  std::vector<std::string> words;
  for (const auto& [name, value] : counts.items())
    words.push_back(fmt::format("{} {}", value.get<std::int64_t>(), name));
  fmt::print("{}\n", fmt::join(words, ", "));
  for (const auto& [name, value] : scores) fmt::print("{:<14}{:>8.4f}\n", name, value);
}

void evaluate_folder(const VectorModel& model, const VectorEvaluation& evaluation, bool json,
                     Log& log, Communicator& communicator) {
  const RetrievalSet set = read_retrieval(evaluation.retrieval, evaluation.split);
  communicator.require_same_files("--retrieval", file_checksum(set.corpus));
  for (const std::string& note : set.notes) log.warn(note);
  TextEmbedder queries = model.embedder(evaluation.flags, PromptKind::query, &communicator);
  TextEmbedder documents = model.embedder(evaluation.flags, PromptKind::document, &communicator);
  const RetrievalScores result =
      evaluate_retrieval(queries, documents, set, progress_of("document", log));
  if (const std::string note = documents.note(); !note.empty()) log.say("note: " + note);
  if (!communicator.is_first()) return;
  const RankingScores& scores = result.scores;
  print({{"queries", result.queries}, {"documents", result.documents}},
        {{"ndcg_at_10", scores.ndcg_at_10},
         {"mrr_at_10", scores.mrr_at_10},
         {"recall_at_100", scores.recall_at_100},
         {"map_at_100", scores.map_at_100}},
        json);
}

void evaluate_files(const VectorModel& model, const VectorEvaluation& evaluation, bool json,
                    Log& log, Communicator& communicator) {
  TaskConfig task = model.task;
  if (!task.columns.pair) task.columns.pair = "pair";
  std::string identity;
  for (const auto& file : match_files(evaluation.pairs)) identity += file_checksum(file);
  communicator.require_same_files("--pairs", text_checksum(identity));
  TextEmbedder first = model.embedder(evaluation.flags, PromptKind::query, &communicator);
  TextEmbedder second = model.embedder(evaluation.flags, PromptKind::document, &communicator);
  const PairScores result = evaluate_pairs(first, second, task, evaluation.pairs);
  for (const std::string& note : {first.note(), second.note()})
    if (!note.empty()) log.say("note: " + note);
  if (!communicator.is_first()) return;
  print({{"pairs", result.pairs}}, {{"spearman", result.spearman}, {"pearson", result.pearson}},
        json);
}

void evaluate_labels(const VectorModel& model, const VectorEvaluation& evaluation, bool json,
                     Log& log, Communicator& communicator) {
  TaskConfig task = model.task;
  task.train = evaluation.classify;
  task.validation = evaluation.test;
  std::string identity;
  for (const auto* patterns : {&task.train, &task.validation})
    for (const auto& file : match_files(*patterns)) identity += file_checksum(file);
  communicator.require_same_files("--classify and --test", text_checksum(identity));
  TextEmbedder embedder = model.embedder(evaluation.flags, PromptKind::document, &communicator);
  const ClassScores result = evaluate_classes(embedder, task);
  if (const std::string note = embedder.note(); !note.empty()) log.say("note: " + note);
  if (!communicator.is_first()) return;
  print({{"texts to train on", result.train},
         {"texts to test", result.test},
         {"labels", result.labels}},
        {{"accuracy", result.accuracy}, {"f1_macro", result.f1_macro}}, json);
}

}  // namespace

void evaluate_vectors(const std::string& model, const std::vector<std::string>& overrides,
                      const VectorEvaluation& evaluation, DType dtype, Device device, bool json,
                      Log& log, Communicator& communicator) {
  const bool pairs = !evaluation.pairs.empty();
  const VectorModel opened =
      open_vector_model(model, overrides, pairs ? TaskKind::regression : TaskKind::classification,
                        dtype, device, log);
  if (pairs)
    evaluate_files(opened, evaluation, json, log, communicator);
  else if (!evaluation.classify.empty())
    evaluate_labels(opened, evaluation, json, log, communicator);
  else
    evaluate_folder(opened, evaluation, json, log, communicator);
}

}  // namespace nystrom
