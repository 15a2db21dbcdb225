#include "train/report/task_findings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "core/check.h"
#include "data/tasks/answers.h"
#include "data/tasks/examples.h"
#include "train/objectives/task_predict.h"

namespace nystrom {
namespace {

constexpr std::size_t max_wrong = 20, bins = 10;
constexpr std::int64_t batch_size = 16;

/// The input of an example in one line.
std::string text_of(const Example& example) {
  if (!example.pixels.empty()) return example.place();
  return example.pair ? example.text + " | " + *example.pair : example.text;
}

/// One word of a sentence, marked, between its neighbours.
std::string text_of(const Example& example, std::size_t marked) {
  constexpr std::size_t neighbours = 15;
  const std::size_t begin = marked - std::min(marked, neighbours);
  const std::size_t end = std::min(example.words.size(), marked + neighbours + 1);
  std::string text = begin > 0 ? "… " : "";
  for (std::size_t i = begin; i < end; ++i) {
    const std::string& word = example.words[i];
    text += (i > begin ? " " : "") + (i == marked ? "»" + word + "«" : word);
  }
  return text + (end < example.words.size() ? " …" : "");
}

/// Compares the prediction for one example with its label, answers or choice.
JudgedExample judged(const Example& example, const Prediction& prediction) {
  JudgedExample result;
  result.text = text_of(example);
  if (prediction.value) {
    result.value = example.value.value_or(0);
    result.predicted_value = *prediction.value;
    return result;
  }
  if (!prediction.guesses.empty()) {
    result.predicted = prediction.guesses[0].label;
    result.confidence = prediction.guesses[0].score;
  }
  if (example.choice) {
    // Two choices may have one text.
    const auto right = static_cast<std::size_t>(*example.choice);
    result.truth = example.choices.at(right);
    result.correct = !prediction.guesses.empty() && prediction.guesses[0].index == right;
    return result;
  } else if (example.label) {
    result.truth = *example.label;
  } else {
    std::vector<std::string> truths;
    for (const Answer& answer : example.answers) truths.push_back(answer.text);
    result.truth = truths.empty() ? "" : truths[0];
    result.correct = score_answer(truths, result.predicted).exact == 1;
    for (std::string* text : {&result.truth, &result.predicted})
      if (text->empty()) *text = "(no answer)";
    return result;
  }
  result.correct = result.truth == result.predicted;
  return result;
}

/// Judges every labelled word.
std::vector<JudgedExample> judge_words(const TaskModel& task,
                                       const std::vector<Example>& examples) {
  const Predictions predictions =
      predict(task, examples, {.batch_size = batch_size, .top_k = 1, .entities = false});
  std::vector<JudgedExample> words;
  for (std::size_t i = 0; i < examples.size(); ++i)
    for (const Guess& guess : predictions.all[i].guesses)
      if (const std::size_t at = guess.index;
          at < examples[i].labels.size() && !guess.label.empty())
        words.push_back({text_of(examples[i], at), examples[i].labels[at], guess.label,
                         guess.label == examples[i].labels[at], guess.score});
  return words;
}

/// Judges samples of feature files, which stay on disk.
TaskFindings judge_features(const TaskModel& task,
                            const std::shared_ptr<const TaskDataset>& dataset, std::int64_t most) {
  const std::vector<Prediction> predictions =
      predict(task, dataset, {.batch_size = batch_size, .top_k = 1, .most = most}).all;
  const std::int64_t count = std::min(most, dataset->size());
  std::vector<JudgedExample> examples;
  for (std::int64_t i = 0; i < count; ++i) {
    const EncodedSample& sample = dataset->sample(i);
    Example example;
    if (sample.label >= 0) example.label = dataset->labels().name(sample.label);
    example.value = sample.value;
    examples.push_back(judged(example, predictions[static_cast<std::size_t>(i)]));
    examples.back().text = fmt::format("sample {} ({} steps)", i, dataset->length(i));
  }
  TaskFindings findings = dataset->target() == TaskTarget::value
                              ? judge_values(examples)
                              : judge_labels(examples, dataset->labels().names());
  if (count < dataset->size())
    findings.notes.push_back(
        fmt::format("Only the first {} of {} samples are judged.", count, dataset->size()));
  return findings;
}

/// Judges texts with any number of labels. The confidence is the probability that all of a text's
/// decisions are right.
TaskFindings judge_texts_of_label_sets(const TaskModel& task,
                                       const std::vector<Example>& examples) {
  const std::vector<std::string>& names = task.reader->labels().names();
  const double threshold = threshold_of(task.settings.task);
  const Predictions predictions = predict(task, examples, {batch_size, std::ssize(names), 0.0});
  LabelSets sets{task.reader->labels().size()};
  std::vector<JudgedExample> judged;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    std::map<std::string, double> scores;
    for (const Guess& guess : predictions.all[i].guesses) scores[guess.label] = guess.score;
    JudgedExample example{text_of(examples[i]), "", "", true, 1};
    for (const std::string& name : names) {
      const bool truth = std::ranges::find(examples[i].labels, name) != examples[i].labels.end();
      const double score = scores[name];
      const bool predicted = score >= threshold;
      sets.truth.push_back(truth);
      sets.predicted.push_back(predicted);
      example.correct &= truth == predicted;
      example.confidence *= predicted ? score : 1 - score;
      if (truth) example.truth += (example.truth.empty() ? "" : ", ") + name;
      if (predicted) example.predicted += (example.predicted.empty() ? "" : ", ") + name;
    }
    for (std::string* text : {&example.truth, &example.predicted})
      if (text->empty()) *text = "(no label)";
    judged.push_back(std::move(example));
  }
  TaskFindings findings = judge_labels(judged, {});
  findings.labels = names;
  findings.label_counts = label_counts(sets);
  return findings;
}

/// Judges the first examples of a data set that keeps them.
TaskFindings judge_texts(const TaskModel& task, const TaskDataset& dataset, std::int64_t most) {
  const TaskConfig& config = task.settings.task;
  std::vector<Example> read;
  for (std::int64_t i = 0; i < std::min(most, dataset.examples()); ++i)
    read.push_back(dataset.example(i));
  const bool tokens = config.kind == TaskKind::tokens;
  std::vector<JudgedExample> examples;
  if (tokens) {
    examples = judge_words(task, read);
  } else if (!*config.multi_label) {
    // As many answers as in evaluations: with fewer, fewer pairs of tokens count for the first one.
    const Predictions predictions = predict(task, read, {batch_size, default_answers});
    for (std::size_t i = 0; i < read.size(); ++i)
      examples.push_back(judged(read[i], predictions.all[i]));
  }
  TaskFindings findings = *config.multi_label ? judge_texts_of_label_sets(task, read)
                          : config.kind == TaskKind::regression
                              ? judge_values(examples)
                              : judge_labels(examples, task.reader->labels().names());
  if (tokens) {
    findings.unit = "words";
    std::size_t words = 0;
    std::ptrdiff_t cut = 0, silent = 0;
    for (std::int64_t i = 0; i < std::ssize(read); ++i) {
      const std::vector<std::int64_t>& starts = dataset.sample(i).word_starts;
      words += starts.size();
      cut += std::ranges::count(starts, cut_off);
      silent += std::ranges::count(starts, no_token);
    }
    if (cut > 0)
      findings.notes.push_back(
          fmt::format("{} of {} words are beyond data.sequence_length: they are not judged here, "
                      "and the metrics count them as O.",
                      cut, words));
    if (silent > 0)
      findings.notes.push_back(
          fmt::format("{} of {} words have no token: nothing judges them.", silent, words));
  }
  if (std::ssize(read) < dataset.examples())
    findings.notes.push_back(
        fmt::format("Only the first {} validation examples are judged.", read.size()));
  if (const std::int64_t skipped = dataset.skipped().count; skipped > 0)
    findings.notes.push_back(fmt::format("{} rows were left out.", skipped));
  return findings;
}

}  // namespace

TaskFindings judge_labels(const std::vector<JudgedExample>& examples,
                          const std::vector<std::string>& labels) {
  TaskFindings findings;
  findings.judged = static_cast<std::int64_t>(examples.size());
  findings.labels = labels;
  findings.confusions.assign(labels.size(), std::vector<std::int64_t>(labels.size()));
  findings.bins.resize(bins);
  const LabelSet set(labels);
  for (const JudgedExample& example : examples) {
    const std::int64_t truth = set.find(example.truth), predicted = set.find(example.predicted);
    if (truth >= 0 && predicted >= 0)
      ++findings.confusions[static_cast<std::size_t>(truth)][static_cast<std::size_t>(predicted)];
    // A diverged model gives NaN.
    const double confidence =
        std::isfinite(example.confidence) ? std::clamp(example.confidence, 0.0, 1.0) : 0;
    CalibrationBin& bin =
        findings.bins[std::min(bins - 1, static_cast<std::size_t>(confidence * bins))];
    ++bin.count;
    bin.confidence += confidence;
    bin.accuracy += example.correct ? 1 : 0;
    if (!example.correct) findings.wrong.push_back(example);
  }
  for (CalibrationBin& bin : findings.bins) {
    if (bin.count == 0) continue;
    const auto count = static_cast<double>(bin.count);
    findings.calibration_error +=
        std::abs(bin.accuracy - bin.confidence) / static_cast<double>(examples.size());
    bin.confidence /= count;
    bin.accuracy /= count;
  }
  std::ranges::stable_sort(findings.wrong, std::greater{}, &JudgedExample::confidence);
  findings.wrong.resize(std::min(findings.wrong.size(), max_wrong));
  return findings;
}

TaskFindings judge_values(const std::vector<JudgedExample>& examples) {
  TaskFindings findings;
  findings.judged = static_cast<std::int64_t>(examples.size());
  for (const JudgedExample& example : examples) {
    findings.values.push_back(example.value);
    findings.predicted_values.push_back(example.predicted_value);
  }
  const auto error = [](const JudgedExample& each) {
    const double difference = std::abs(each.value - each.predicted_value);
    return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
  };
  findings.wrong = examples;
  std::ranges::stable_sort(findings.wrong, std::greater{}, error);
  findings.wrong.resize(std::min(findings.wrong.size(), max_wrong));
  return findings;
}

TaskFindings find_task_errors(const RunHistory& run, std::int64_t max_examples, Device device,
                              Log& log) {
  TaskFindings findings;
  try {
    const ModelFolder folder = open_model(run.path, {}, log);
    const TaskModel task =
        open_task_model(folder, settings_of(folder, std::nullopt, {}), DType::f32, device);
    const auto validation =
        task.reader->read_validation(task.settings.seed, /*keep_examples=*/true);
    require_input(run.validation.empty() || run.validation == content_checksum(*validation),
                  "they have changed since the training");
    findings = task.settings.task.kind == TaskKind::features
                   ? judge_features(task, validation, max_examples)
                   : judge_texts(task, *validation, max_examples);
  } catch (const InputError& error) {
    findings.notes.push_back(fmt::format("The validation data are not judged: {}", error.what()));
  }
  return findings;
}

}  // namespace nystrom
