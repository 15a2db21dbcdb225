// The metrics of the cases in fixtures/tasks/metrics.jsonl, and of those that
// tests/reference/check_tasks.py draws.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tasks/answers.h"
#include "data/tasks/entities.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {

/// Metrics of {kind, truth, predicted, …}: an object with null for those that are undefined.
inline nlohmann::json metrics_of_case(const nlohmann::json& test) {
  using Json = nlohmann::json;
  const auto number = [](double value) { return std::isnan(value) ? Json() : Json(value); };
  const std::string kind = test["kind"];
  const Json &truth = test["truth"], &predicted = test["predicted"];
  if (kind == "classes") {
    using Classes = std::vector<std::int64_t>;
    const auto classes = truth.get<Classes>(), found = predicted.get<Classes>();
    ClassMetrics metrics = class_metrics(classes, found);
    const PrecisionRecall binary = metrics.classes[1].score();
    return {{"accuracy", metrics.accuracy}, {"precision", binary.precision},
            {"recall", binary.recall},      {"f1", binary.f1},
            {"f1_macro", metrics.f1_macro}, {"matthews", metrics.matthews}};
  }
  if (kind == "label_sets") {
    const LabelSets sets{test["labels"], truth, predicted, test["scores"]};
    return {{"f1_micro", micro_f1(sets)},
            {"f1_macro", macro_f1(sets)},
            {"mean_average_precision", mean_average_precision(sets)},
            {"exact_match", subset_accuracy(sets)}};
  }
  if (kind == "values") {
    using Values = std::vector<double>;
    const auto values = truth.get<Values>(), found = predicted.get<Values>();
    return {{"pearson", number(pearson_correlation(values, found))},
            {"spearman", number(spearman_correlation(values, found))}};
  }
  if (kind == "answers") {
    const auto answer = predicted.get<std::string>();
    const AnswerScore score = score_answer(truth.get<std::vector<std::string>>(), answer);
    return {{"exact", score.exact}, {"f1", score.f1}, {"normalized", normalize_answer(answer)}};
  }
  using Sentences = std::vector<std::vector<std::string>>;
  const EntityScores scores = score_entities(truth.get<Sentences>(), predicted.get<Sentences>());
  return {{"precision", scores.spans.precision},
          {"recall", scores.spans.recall},
          {"f1", scores.spans.f1},
          {"accuracy", scores.accuracy}};
}

}  // namespace nystrom
