#include "train/objectives/task_predict.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tasks/answers.h"
#include "data/tasks/entities.h"
#include "data/tasks/task_metrics.h"
#include "data/tasks/task_scorer.h"
#include "data/tasks/word_cut.h"
#include "train/objectives/task_evaluation.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

/// The range of bytes in code points.
TextRange characters(std::string_view text, const TextRange& bytes) {
  const auto count = [&](std::int64_t end) {
    return std::count_if(text.begin(), text.begin() + end,
                         [](char c) { return !is_utf8_continuation(c); });
  };
  return {count(bytes.begin), count(bytes.end)};
}

/// Whether all labels are entity tags, for example B-PER.
bool tells_entities(const TaskModel& task) {
  return std::ranges::all_of(task.reader->labels().names(), is_entity_tag);
}

/// Runs the model on a data set and turns its outputs into predictions.
class Predictor {
 public:
  Predictor(const TaskModel& task, const TaskDataset& dataset, const PredictionOptions& options)
      : task_(task),
        dataset_(dataset),
        entities_(options.entities && tells_entities(task)),
        threshold_(options.threshold.value_or(threshold_of(task.settings.task))),
        top_k_(dataset.target() == TaskTarget::label_set ? dataset.labels().size()
                                                         : options.top_k) {}

  std::vector<Prediction> operator()(TaskEvaluationLoader& loader) {
    const bool spans = dataset_.target() == TaskTarget::span;
    std::map<std::int64_t, std::vector<SampleOutputs>> windows_of;  // each example
    while (std::optional<Batch> batch = loader.next()) {
      const std::vector<std::int64_t> samples = batch->samples;
      const ModelOutput out = task_output(*task_.model, std::move(*batch));
      for (SampleOutputs& outputs : sample_outputs(dataset_, samples, out)) {
        require_finite(outputs.first);
        require_finite(outputs.last);
        windows_of[dataset_.sample(outputs.sample).example].push_back(std::move(outputs));
      }
    }
    std::vector<Prediction> predictions(static_cast<std::size_t>(dataset_.examples()));
    for (auto& [example, windows] : windows_of) {
      std::ranges::sort(windows, {}, &SampleOutputs::sample);
      predictions[static_cast<std::size_t>(example)] =
          spans ? answer(example, windows) : predict(windows);
    }
    return predictions;
  }

 private:
  Prediction predict(const std::vector<SampleOutputs>& windows) const {
    const std::int64_t sample = windows[0].sample;
    std::vector<std::vector<double>> outputs;
    for (const SampleOutputs& window : windows) outputs.push_back(window.first);
    const std::vector<double> scores = merge_windows(task_.settings.task.windows, outputs);
    const TaskKind kind = *task_.settings.task.kind;
    if (kind == TaskKind::tokens) return {{}, label_words(sample, scores)};
    if (kind == TaskKind::choice)
      return {{},
              ranked_guesses(softmax_of(scores),
                             dataset_.example(dataset_.sample(sample).example).choices)};
    if (dataset_.target() == TaskTarget::label_set) return {{}, reached(scores)};
    if (task_.model->config().num_labels() == 1) return {scores[0], {}};
    return {{}, ranked_guesses(softmax_of(scores), task_.reader->labels().names())};
  }

  /// The labels that reach the threshold.
  std::vector<Guess> reached(const std::vector<double>& scores) const {
    std::vector<double> probabilities;
    for (const double score : scores) probabilities.push_back(sigmoid(score));
    std::vector<Guess> guesses = ranked_guesses(probabilities, task_.reader->labels().names());
    std::erase_if(guesses, [&](const Guess& guess) { return guess.score < threshold_; });
    return guesses;
  }

  std::vector<Guess> ranked_guesses(const std::vector<double>& probabilities,
                                    const std::vector<std::string>& names) const {
    std::vector<Guess> guesses;
    for (const std::size_t i : largest(probabilities, top_k_))
      guesses.push_back({.label = names[i], .score = probabilities[i], .index = i});
    return guesses;
  }

  std::vector<Guess> label_words(std::int64_t sample, std::span<const double> scores) const {
    const LabelSet& labels = task_.reader->labels();
    const Example& example = dataset_.example(dataset_.sample(sample).example);
    const std::vector<WordLabel> predicted =
        word_labels(dataset_.sample(sample), scores, labels.size());
    std::vector<Guess> guesses;
    if (!entities_) {
      for (std::size_t i = 0; i < example.words.size(); ++i) {
        const auto& [label, probability] = predicted[i];
        guesses.push_back({label < 0 ? "" : labels.name(label), probability, example.words[i], i});
      }
      return guesses;
    }
    const std::vector<TextRange> places =
        example.text.empty() ? std::vector<TextRange>()
                             : split_words(example.text, word_cut_of(task_.settings.task));
    for (const Entity& entity :
         find_entities(example.words, predicted, labels, example.text, places)) {
      Guess guess{entity.type, entity.score, entity.text};
      if (!places.empty()) guess.place = characters(example.text, entity.place);
      guesses.push_back(std::move(guess));
    }
    return guesses;
  }

  Prediction answer(std::int64_t example, const std::vector<SampleOutputs>& windows) const {
    std::vector<WindowScores> scores;
    for (const SampleOutputs& window : windows)
      scores.push_back({&dataset_.sample(window.sample), window.first, window.last});
    const std::string& context = *dataset_.example(example).pair;
    Prediction result;
    for (const PredictedAnswer& found :
         best_answers(context, scores, task_.settings.task, top_k_)) {
      Guess guess{found.text, found.score};
      if (!found.text.empty()) guess.place = characters(context, found.place);
      result.guesses.push_back(std::move(guess));
    }
    return result;
  }

  const TaskModel& task_;
  const TaskDataset& dataset_;
  bool entities_;
  double threshold_;
  std::int64_t top_k_;
};

}  // namespace

Example example_of(const TaskConfig& task, bool described, Example given) {
  const TaskKind kind = *task.kind;
  const std::string name = fmt::format("'{}'", printable(given.text, 60));
  require_input(!holds_images(task.format) || !given.pixels.empty(),
                "{}: the task reads images; give the name of a file of them", name);
  const bool needs_pair =
      kind == TaskKind::questions || (kind != TaskKind::choice && task.columns.pair);
  const bool may_be_pair =
      !described && (kind == TaskKind::classification || kind == TaskKind::regression);
  const bool takes_pair =
      needs_pair || kind == TaskKind::choice || task.columns.pair || may_be_pair;
  require_input(!needs_pair || given.pair, "{}: {}", name,
                kind == TaskKind::questions
                    ? "a question needs the text that answers it; give --pair TEXT"
                    : "the task has pairs of texts; give the second by --pair TEXT");
  const bool asked = kind == TaskKind::questions;
  require_input(!asked || (!is_blank(given.text) && !is_blank(*given.pair)),
                "{}: the question or the text that answers it is blank", name);
  require_input(!given.pair || takes_pair,
                "{}: the task has single texts (task.columns.pair is null); leave --pair out",
                name);
  require_input(kind == TaskKind::choice || given.choices.empty(),
                "{}: a task of kind {} has no choices; leave --choice out", name, enum_name(kind));
  require_input(kind != TaskKind::choice || given.choices.size() >= 2,
                "{}: there must be at least two choices; give each by --choice TEXT", name);
  if (kind == TaskKind::tokens && given.words.empty())
    given.words = words_of(given.text, word_cut_of(task), name);
  return given;
}

Predictions predict(const TaskModel& task, const std::shared_ptr<const TaskDataset>& dataset,
                    const PredictionOptions& options) {
  TaskEvaluationLoader loader(dataset,
                              {.micro_batch_size = options.batch_size, .most = options.most});
  return {Predictor(task, *dataset, options)(loader), dataset->counts()};
}

Predictions predict(const TaskModel& task, const std::vector<Example>& examples,
                    const PredictionOptions& options) {
  std::map<std::size_t, std::vector<std::size_t>> places;  // by the number of choices
  for (std::size_t i = 0; i < examples.size(); ++i) places[examples[i].choices.size()].push_back(i);
  if (places.size() <= 1) return predict(task, task.reader->from(examples), options);
  Predictions result;
  result.all.resize(examples.size());
  for (const auto& [choices, own] : places) {
    std::vector<Example> equal;
    for (const std::size_t place : own) equal.push_back(examples[place]);
    Predictions found = predict(task, task.reader->from(equal), options);
    for (std::size_t i = 0; i < own.size(); ++i) result.all[own[i]] = std::move(found.all[i]);
    result.counts.add(found.counts);
  }
  return result;
}

std::string prediction_json(const TaskModel& task, const Prediction& prediction) {
  const TaskKind kind = *task.settings.task.kind;
  const bool entities = kind == TaskKind::tokens && tells_entities(task);
  const char* name = kind == TaskKind::questions ? "answer"
                     : kind == TaskKind::choice  ? "choice"
                     : entities                  ? "entity_group"
                                                 : "label";
  if (prediction.value) return Json{{"value", *prediction.value}}.dump();
  Json list = Json::array();
  for (const Guess& guess : prediction.guesses) {
    Json object = {{name, guess.label}, {"score", guess.score}};
    if (kind == TaskKind::tokens) {
      if (guess.label.empty()) object = {{name, nullptr}, {"score", nullptr}};
      object["word"] = guess.word;
    }
    if (guess.place) {
      object["start"] = guess.place->begin;
      object["end"] = guess.place->end;
    }
    list.push_back(std::move(object));
  }
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace nystrom
