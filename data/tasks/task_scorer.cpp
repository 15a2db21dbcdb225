#include "data/tasks/task_scorer.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace nystrom {
namespace {

std::int64_t largest(std::span<const double> scores) {
  return std::ranges::max_element(scores) - scores.begin();
}

}  // namespace

struct TaskScorer::State {
  std::shared_ptr<const TaskDataset> data;
  std::vector<std::uint8_t> seen;              // whether each sample was added
  std::vector<std::int64_t> predicted;         // for classes and choice
  std::vector<double> values;                  // for value
  std::vector<std::vector<std::string>> tags;  // for word_classes
  // For span: the scores of start and end.
  std::vector<std::pair<std::vector<double>, std::vector<double>>> spans;

  void mark(std::int64_t sample) {
    std::uint8_t& mark = seen.at(static_cast<std::size_t>(sample));
    require(mark == 0, "TaskScorer: sample {} was added twice", sample);
    mark = 1;
  }

  TaskScores class_scores() const;
  TaskScores value_scores() const;
  TaskScores word_scores() const;
  TaskScores span_scores() const;
  std::vector<std::int64_t> true_labels() const;
};

TaskScorer::TaskScorer(std::shared_ptr<const TaskDataset> dataset)
    : state_(std::make_unique<State>()) {
  state_->data = std::move(dataset);
  const TaskDataset& data = *state_->data;
  const auto size = static_cast<std::size_t>(data.size());
  for (std::int64_t i = 0; i < data.size(); ++i)
    require(data.sample(i).labelled, "TaskScorer: sample {} has no label", i);
  require(data.target() != TaskTarget::span || data.keeps_examples(),
          "TaskScorer: questions need their contexts kept");
  deciding_metric(data);
  state_->seen.resize(size);
  state_->predicted.resize(size);
  state_->values.resize(size);
  state_->tags.resize(size);
  state_->spans.resize(size);
}

TaskScorer::~TaskScorer() = default;

void TaskScorer::add(const Batch& batch, const Tensor& logits) {
  State& s = *state_;
  const std::vector<double> scores = logits.contiguous().to_doubles();
  require(!batch.samples.empty() && scores.size() % batch.samples.size() == 0,
          "TaskScorer: outputs {} for {} samples", logits.shape(), batch.samples.size());
  const std::size_t width = scores.size() / batch.samples.size();
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const std::int64_t sample = batch.samples[i];
    const auto at = static_cast<std::size_t>(sample);
    const std::span<const double> row = std::span(scores).subspan(i * width, width);
    s.mark(sample);
    switch (s.data->target()) {
      case TaskTarget::classes:
      case TaskTarget::choice: s.predicted[at] = largest(row); break;
      case TaskTarget::value: s.values[at] = row[0]; break;
      case TaskTarget::word_classes:
        for (const WordLabel& word :
             word_labels(s.data->sample(sample), row, s.data->labels().size()))
          s.tags[at].push_back(word.label < 0 ? "O" : s.data->labels().name(word.label));
        break;
      default: throw Error("TaskScorer: this task has other outputs");
    }
  }
}

void TaskScorer::add(const Batch& batch, const Tensor& start_logits, const Tensor& end_logits) {
  State& s = *state_;
  require(s.data->target() == TaskTarget::span, "TaskScorer: this task has other outputs");
  const std::vector<double> start = start_logits.contiguous().to_doubles(),
                            end = end_logits.contiguous().to_doubles();
  require(start.size() == end.size() && start.size() % batch.samples.size() == 0,
          "TaskScorer: outputs {} and {} for {} samples", start_logits.shape(), end_logits.shape(),
          batch.samples.size());
  const std::size_t width = start.size() / batch.samples.size();
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const std::int64_t sample = batch.samples[i];
    s.mark(sample);
    const auto cut = [&](const std::vector<double>& scores) {
      const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(i * width);
      return std::vector<double>(begin, begin + s.data->length(sample));
    };
    s.spans[static_cast<std::size_t>(sample)] = {cut(start), cut(end)};
  }
}

std::vector<std::int64_t> TaskScorer::State::true_labels() const {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < data->size(); ++i) labels.push_back(data->sample(i).label);
  return labels;
}

TaskScores TaskScorer::State::class_scores() const {
  const std::vector<std::int64_t> truth = true_labels();
  TaskScores scores;
  scores.values.emplace_back("accuracy", accuracy(truth, predicted));
  if (data->target() == TaskTarget::choice) return scores;
  if (data->labels().size() == 2) scores.values.emplace_back("f1", binary_f1(truth, predicted).f1);
  scores.values.emplace_back("f1_macro", macro_f1(truth, predicted));
  scores.values.emplace_back("matthews", matthews_correlation(truth, predicted));
  return scores;
}

TaskScores TaskScorer::State::value_scores() const {
  std::vector<double> truth;
  double squares = 0;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    truth.push_back(data->sample(i).value);
    squares += std::pow(truth.back() - values[static_cast<std::size_t>(i)], 2);
  }
  return {{{"pearson", pearson_correlation(truth, values)},
           {"spearman", spearman_correlation(truth, values)},
           {"mse", squares / static_cast<double>(truth.size())}},
          "",
          0};
}

TaskScores TaskScorer::State::word_scores() const {
  std::vector<std::vector<std::string>> truth;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    truth.emplace_back();
    for (const std::int64_t label : data->sample(i).word_labels)
      truth.back().push_back(data->labels().name(label));
  }
  const EntityScores scores = score_entities(truth, tags);
  if (data->task().metric == TaskMetric::accuracy) return {{{"accuracy", scores.accuracy}}, "", 0};
  const PrecisionRecall& all = scores.all.score;
  return {{{"f1", all.f1},
           {"precision", all.precision},
           {"recall", all.recall},
           {"accuracy", scores.accuracy}},
          "",
          0};
}

TaskScores TaskScorer::State::span_scores() const {
  AnswerOptions options;
  options.max_answer_length = data->task().max_answer_length;
  options.no_answer = data->task().no_answer == true;
  options.no_answer_threshold = data->task().no_answer_threshold;
  AnswerScore sum;
  for (std::int64_t i = 0; i < data->size();) {
    const std::int64_t number = data->sample(i).example;
    std::vector<WindowScores> windows;
    for (; i < data->size() && data->sample(i).example == number; ++i)
      windows.push_back({&data->sample(i), spans[static_cast<std::size_t>(i)].first,
                         spans[static_cast<std::size_t>(i)].second});
    const Example& example = data->example(number);
    std::vector<std::string> truths;
    for (const Answer& answer : example.answers) truths.push_back(answer.text);
    const AnswerScore score =
        score_answer(truths, best_answers(*example.pair, windows, options)[0].text);
    sum.exact += score.exact;
    sum.f1 += score.f1;
  }
  const auto count = static_cast<double>(data->examples());
  return {{{"f1", sum.f1 / count}, {"exact_match", sum.exact / count}}, "", 0};
}

TaskScores TaskScorer::scores() const {
  const State& s = *state_;
  const auto missing = std::ranges::find(s.seen, 0) - s.seen.begin();
  require(missing == s.data->size(), "TaskScorer: sample {} was not added", missing);
  const TaskTarget target = s.data->target();
  TaskScores scores = target == TaskTarget::value          ? s.value_scores()
                      : target == TaskTarget::word_classes ? s.word_scores()
                      : target == TaskTarget::span         ? s.span_scores()
                                                           : s.class_scores();
  scores.metric = enum_name(deciding_metric(*s.data));
  for (const auto& [name, value] : scores.values)
    if (name == scores.metric) scores.decisive = value;
  return scores;
}

std::vector<TaskMetric> fitting_metrics(const TaskDataset& dataset) {
  std::vector<TaskMetric> metrics = metrics_of(dataset.kind());
  const bool number = dataset.target() == TaskTarget::value;
  std::erase_if(metrics, [&](TaskMetric metric) {
    const bool correlation = metric == TaskMetric::pearson || metric == TaskMetric::spearman;
    if (dataset.kind() == TaskKind::features && correlation != number) return true;
    return dataset.target() == TaskTarget::classes && metric == TaskMetric::f1 &&
           dataset.labels().size() != 2;
  });
  return metrics;
}

TaskMetric deciding_metric(const TaskDataset& dataset) {
  const std::vector<TaskMetric> fitting = fitting_metrics(dataset);
  const TaskMetric metric = dataset.task().metric.value_or(fitting[0]);
  std::vector<std::string> names;
  for (const TaskMetric each : fitting) names.emplace_back(enum_name(each));
  require_input(std::ranges::find(fitting, metric) != fitting.end(),
                "task.metric {} does not measure this task: {}; expected one of {}",
                enum_name(metric),
                dataset.target() == TaskTarget::value
                    ? "it predicts numbers"
                    : fmt::format("it has {} labels", dataset.labels().size()),
                fmt::join(names, ", "));
  return metric;
}

bool better(double a, double b) { return !std::isnan(a) && (std::isnan(b) || a > b); }

}  // namespace nystrom
