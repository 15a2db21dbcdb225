#include "train/cli/evaluate_vectors.h"

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/match_files.h"
#include "data/text/text.h"
#include "train/objectives/retrieval.h"
#include "train/objectives/vector_evaluation.h"

namespace nystrom {
namespace {

void print(const VectorScores& result, bool json) {
  if (json) {
    nlohmann::ordered_json object;
    for (const auto& [name, value] : result.counts) object[name] = value;
    for (const auto& [name, value] : result.scores) object[name] = value;
    fmt::print("{}\n", object.dump());
    return;
  }
  std::vector<std::string> words;
  for (const auto& [name, value] : result.counts)
    words.push_back(fmt::format("{} {}", value, name));
  fmt::print("{}\n", fmt::join(words, ", "));
  for (const auto& [name, value] : result.scores) fmt::print("{:<14}{:>8.4f}\n", name, value);
}

/// A checksum of the files that patterns match.
std::string identity_of(const std::vector<std::string>& patterns) {
  std::string identity;
  for (const auto& file : match_files(patterns)) identity += file_checksum(file);
  return identity;
}

void say_notes(std::initializer_list<const TextEmbedder*> embedders, Log& log) {
  for (const TextEmbedder* embedder : embedders)
    if (const std::string note = embedder->note(); !note.empty()) log.say("note: " + note);
}

VectorScores score_folder(const VectorModel& model, const VectorEvaluation& evaluation, Log& log,
                          Communicator& communicator) {
  const RetrievalSet set = read_retrieval(evaluation.retrieval, evaluation.split);
  communicator.require_same_files("--retrieval", file_checksum(set.corpus));
  for (const std::string& note : set.notes) log.warn(note);
  TextEmbedder queries = model.embedder(evaluation.flags, PromptKind::query, &communicator);
  TextEmbedder documents = model.embedder(evaluation.flags, PromptKind::document, &communicator);
  const RankingScores scores =
      evaluate_retrieval(queries, documents, set, progress_of("document", log));
  say_notes({&documents}, log);
  VectorScores result;
  result.counts = {{"queries", std::ssize(set.queries)},
                   {"documents", std::ssize(set.document_places)}};
  for (std::size_t i = 0; i < scores.size(); ++i)
    result.scores.emplace_back(enum_name(ranking_metrics[i]), scores[i]);
  return result;
}

VectorScores score_pairs(const VectorModel& model, const VectorEvaluation& evaluation, Log& log,
                         Communicator& communicator) {
  TaskConfig task = model.task;
  if (!task.columns.pair) task.columns.pair = "pair";
  communicator.require_same_files("--pairs", text_checksum(identity_of(evaluation.pairs)));
  TextEmbedder first = model.embedder(evaluation.flags, PromptKind::query, &communicator);
  TextEmbedder second = model.embedder(evaluation.flags, PromptKind::document, &communicator);
  VectorScores result = evaluate_pairs(first, second, task, evaluation.pairs);
  say_notes({&first, &second}, log);
  return result;
}

VectorScores score_classes(const VectorModel& model, const VectorEvaluation& evaluation, Log& log,
                           Communicator& communicator) {
  TaskConfig task = model.task;
  task.train = evaluation.classify;
  task.validation = evaluation.test;
  communicator.require_same_files(
      "--classify and --test",
      text_checksum(identity_of(task.train) + identity_of(task.validation)));
  TextEmbedder embedder = model.embedder(evaluation.flags, PromptKind::document, &communicator);
  VectorScores result = evaluate_classes(embedder, task);
  say_notes({&embedder}, log);
  return result;
}

}  // namespace

void evaluate_vectors(const std::string& model, const std::vector<std::string>& overrides,
                      const VectorEvaluation& evaluation, DType dtype, Device device, bool json,
                      Log& log, Communicator& communicator) {
  const bool pairs = !evaluation.pairs.empty();
  const VectorModel opened =
      open_vector_model(model, overrides, pairs ? TaskKind::regression : TaskKind::classification,
                        dtype, device, log);
  const auto score = pairs                          ? score_pairs
                     : !evaluation.classify.empty() ? score_classes
                                                    : score_folder;
  const VectorScores result = score(opened, evaluation, log, communicator);
  if (communicator.is_first()) print(result, json);
}

}  // namespace nystrom
