#include "data/tasks/task_scorer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

std::int64_t largest(std::span<const double> scores) {
  return std::ranges::max_element(scores) - scores.begin();
}

/// `outputs`: a row of logits each, for the areas under ROC curves; of constants they are empty.
TaskScores class_scores(const TaskDataset& data, std::span<const std::int64_t> truth,
                        std::span<const std::int64_t> predicted,
                        std::span<const std::vector<double>> outputs) {
  TaskScores scores;
  ClassMetrics metrics = class_metrics(truth, predicted);
  scores.values.emplace_back("accuracy", metrics.accuracy);
  if (data.target() == TaskTarget::choice) return scores;
  const std::int64_t labels = data.labels().size();
  if (labels == 2) scores.values.emplace_back("f1", metrics.classes[1].score().f1);
  scores.values.emplace_back("f1_macro", metrics.f1_macro);
  scores.values.emplace_back("matthews", metrics.matthews);
  scores.values.emplace_back("balanced_accuracy", metrics.balanced_accuracy);
  scores.values.emplace_back("kappa", metrics.kappa);
  if (labels > max_confusion) return scores;
  scores.classes = class_figures(truth, predicted, outputs, labels);
  scores.values.emplace_back("auc", mean_auc(scores.classes));
  scores.confusion.assign(static_cast<std::size_t>(labels),
                          std::vector<std::int64_t>(static_cast<std::size_t>(labels)));
  for (std::size_t i = 0; i < truth.size(); ++i)
    ++scores.confusion.at(static_cast<std::size_t>(truth[i]))
          .at(static_cast<std::size_t>(predicted[i]));
  return scores;
}

TaskScores value_scores(std::span<const double> truth, std::span<const double> values) {
  double squares = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) squares += std::pow(truth[i] - values[i], 2);
  return {{{"pearson", pearson_correlation(truth, values)},
           {"spearman", spearman_correlation(truth, values)},
           {"mse", squares / static_cast<double>(truth.size())}}};
}

TaskScores label_set_scores(const LabelSets& sets) {
  return {{{"f1_micro", micro_f1(sets)},
           {"f1_macro", macro_f1(sets)},
           {"mean_average_precision", mean_average_precision(sets)},
           {"exact_match", subset_accuracy(sets)}}};
}

using Tags = std::vector<std::vector<std::string>>;

/// The right tags; empty for words without a token, which no metric counts.
Tags true_tags(const TaskDataset& data) {
  Tags truth;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const EncodedSample& sample = data.sample(i);
    truth.emplace_back();
    for (std::size_t word = 0; word < sample.labels.size(); ++word)
      truth.back().push_back(
          sample.word_starts[word] == no_token ? "" : data.labels().name(sample.labels[word]));
  }
  return truth;
}

TaskScores word_scores(const TaskDataset& data, const Tags& tags) {
  const EntityScores scores = score_entities(true_tags(data), tags);
  if (data.task().metric == TaskMetric::accuracy) return {{{"accuracy", scores.accuracy}}};
  const PrecisionRecall& all = scores.spans;
  return {{{"f1", all.f1},
           {"precision", all.precision},
           {"recall", all.recall},
           {"accuracy", scores.accuracy}}};
}

/// The mean score of an answer to every question.
TaskScores span_scores(const TaskDataset& data, const std::vector<std::string>& answers) {
  AnswerScore sum;
  for (std::int64_t i = 0; i < data.examples(); ++i) {
    std::vector<std::string> truths;
    for (const Answer& answer : data.example(i).answers) truths.push_back(answer.text);
    const AnswerScore score = score_answer(truths, answers[static_cast<std::size_t>(i)]);
    sum.exact += score.exact;
    sum.f1 += score.f1;
  }
  const auto count = static_cast<double>(data.examples());
  return {{{"f1", sum.f1 / count}, {"exact_match", sum.exact / count}}};
}

/// `scores` with its decisive metric. Of all metrics the loss alone is not among their values.
TaskScores decided(const TaskDataset& data, TaskScores scores, double loss) {
  scores.metric = enum_name(deciding_metric(data));
  scores.decisive = scores.value(scores.metric).value_or(loss);
  return scores;
}

/// The index of the most frequent label; the lower one among equals.
std::int64_t most_frequent(std::span<const std::int64_t> labels) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t label : labels) ++counts[label];
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return most == counts.end() ? 0 : most->first;
}

/// Calls use(begin, end) for every example, with the range of its samples.
template <class Use>
void visit_examples(const TaskDataset& data, const Use& use) {
  for (std::int64_t begin = 0, end = 0; begin < data.size(); begin = end) {
    do ++end;
    while (end < data.size() && !data.begins_example(end));
    use(begin, end);
  }
}

/// The unit of counting: an example once, or each of its windows, as the loss does.
enum class Counted { examples, windows };

/// A member of the samples that count.
template <class Value>
std::vector<Value> of_examples(const TaskDataset& data, Value EncodedSample::*member,
                               Counted counted = Counted::examples) {
  std::vector<Value> values;
  for (std::int64_t i = 0; i < data.size(); ++i)
    if (counted == Counted::windows || data.begins_example(i))
      values.push_back(data.sample(i).*member);
  return values;
}

TaskScores constant_value_scores(const TaskDataset& data, Counted counted) {
  const std::vector<double> truth = of_examples(data, &EncodedSample::value, counted);
  const double mean =
      std::accumulate(truth.begin(), truth.end(), 0.0) / static_cast<double>(truth.size());
  TaskScores scores = value_scores(truth, std::vector<double>(truth.size(), mean));
  for (auto& [name, value] : scores.values)
    if (std::isnan(value)) value = 0;  // the correlation of a constant
  return scores;
}

/// The right labels, without predictions.
LabelSets true_label_sets(const TaskDataset& data, Counted counted = Counted::examples) {
  LabelSets sets{data.labels().size()};
  for (const auto& labels : of_examples(data, &EncodedSample::labels, counted)) {
    sets.truth.resize(sets.truth.size() + static_cast<std::size_t>(sets.labels));
    for (const std::int64_t label : labels) *(sets.truth.end() - sets.labels + label) = 1;
  }
  return sets;
}

/// The mean entropy of the decisions about each label.
double constant_label_set_loss(const LabelSets& sets) {
  double sum = 0;
  for (const ClassCounts& count : label_counts({sets.labels, sets.truth, sets.truth, {}})) {
    const double share = static_cast<double>(count.truth) / static_cast<double>(sets.examples());
    for (const double part : {share, 1 - share})
      if (part > 0) sum -= part * std::log(part);
  }
  return sum / static_cast<double>(sets.labels);
}

TaskScores scores_of_constant(const TaskDataset& data) {
  if (data.target() == TaskTarget::value) return constant_value_scores(data, Counted::examples);
  if (data.target() == TaskTarget::label_set) {
    LabelSets sets = true_label_sets(data);
    predict_frequent_labels(sets);
    return label_set_scores(sets);
  }
  if (data.target() == TaskTarget::word_classes) {
    std::vector<std::int64_t> labels;
    Tags tags = true_tags(data);
    for (const auto& sentence : tags)
      for (const std::string& tag : sentence)
        if (!tag.empty()) labels.push_back(data.labels().find(tag));
    const std::string constant = data.labels().name(most_frequent(labels));
    for (auto& sentence : tags)
      for (std::string& tag : sentence)
        if (!tag.empty()) tag = constant;
    return word_scores(data, tags);
  }
  if (data.target() == TaskTarget::span)
    return span_scores(data, std::vector<std::string>(static_cast<std::size_t>(data.examples())));
  const std::vector<std::int64_t> truth = of_examples(data, &EncodedSample::label);
  return class_scores(data, truth, std::vector<std::int64_t>(truth.size(), most_frequent(truth)),
                      {});
}

/// The possible decisive metrics of this data, the default first. f1 of classes needs two labels.
/// Features have classes or numbers.
std::vector<TaskMetric> fitting_metrics(const TaskDataset& dataset) {
  std::vector<TaskMetric> metrics = metrics_of(dataset.task());
  const bool number = dataset.target() == TaskTarget::value;
  std::erase_if(metrics, [&](TaskMetric metric) {
    const bool correlation = metric == TaskMetric::pearson || metric == TaskMetric::spearman;
    const bool either = metric == TaskMetric::loss;  // of numbers and of classes
    if (dataset.kind() == TaskKind::features && !either && correlation != number) return true;
    if (metric == TaskMetric::auc && dataset.labels().size() > max_confusion) return true;
    return dataset.target() == TaskTarget::classes && metric == TaskMetric::f1 &&
           dataset.labels().size() != 2;
  });
  return metrics;
}

/// By how much a half type rounds a number near `value`.
double rounding_of(double value, DType dtype) {
  return std::ldexp(std::abs(value), dtype == DType::bf16 ? -9 : -12);
}

}  // namespace

std::optional<double> TaskScores::value(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &std::pair<std::string, double>::first);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::vector<SampleOutputs> outputs_by_sample(const TaskDataset& data,
                                             std::span<const std::int64_t> samples,
                                             const Tensor& first, const Tensor& last) {
  const auto numbers = [](const Tensor& x) {
    return x.defined() ? x.to_doubles() : std::vector<double>();
  };
  const std::vector<double> firsts = numbers(first), lasts = numbers(last);
  const bool by_tokens = data.target() == TaskTarget::word_classes;
  std::int64_t rows = 0;
  for (const std::int64_t sample : samples) rows += by_tokens ? data.length(sample) : 1;
  require(rows > 0 && std::ssize(firsts) % rows == 0, "task outputs: {} numbers for {} rows",
          firsts.size(), rows);
  const std::int64_t width = std::ssize(firsts) / rows;
  std::vector<SampleOutputs> result;
  std::int64_t begin = 0;
  for (const std::int64_t sample : samples) {
    const std::int64_t own = by_tokens ? data.length(sample) * width : width,
                       read = last.defined() ? data.length(sample) : own;  // without padding
    const auto part = [&](const std::vector<double>& all) {
      return all.empty() ? all : std::vector(all.begin() + begin, all.begin() + begin + read);
    };
    result.push_back({sample, part(firsts), part(lasts)});
    begin += own;
  }
  return result;
}

TaskScorer::TaskScorer(std::shared_ptr<const TaskDataset> dataset)
    : data_(std::move(dataset)),
      seen_(static_cast<std::size_t>(data_->size())),
      outputs_(seen_.size()),
      tags_(seen_.size()) {
  for (std::int64_t i = 0; i < data_->size(); ++i)
    require(data_->sample(i).labelled, "TaskScorer: sample {} has no label", i);
  deciding_metric(*data_);
  require_targets(*data_, "the data");
}

void TaskScorer::add(SampleOutputs outputs) {
  const auto at = static_cast<std::size_t>(outputs.sample);
  std::uint8_t& seen = seen_.at(at);
  require(seen == 0, "TaskScorer: sample {} was added twice", at);
  seen = 1;
  const LabelSet& labels = data_->labels();
  if (data_->target() == TaskTarget::word_classes)
    tags_[at] =
        tags_of(word_labels(data_->sample(outputs.sample), outputs.first, labels.size()), labels);
  else
    outputs_[at] = std::move(outputs);
}

TaskScores TaskScorer::undecided() const {
  const TaskConfig& task = data_->task();
  const auto merged = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::vector<double>> windows;
    for (std::int64_t i = begin; i < end; ++i)
      windows.push_back(outputs_[static_cast<std::size_t>(i)].first);
    return merge_windows(task.windows, windows);
  };
  switch (data_->target()) {
    case TaskTarget::value: {
      std::vector<double> values;
      visit_examples(*data_, [&](std::int64_t begin, std::int64_t end) {
        values.push_back(merged(begin, end)[0]);
      });
      return value_scores(of_examples(*data_, &EncodedSample::value), values);
    }
    case TaskTarget::label_set: {
      LabelSets sets = true_label_sets(*data_);
      visit_examples(*data_, [&](std::int64_t begin, std::int64_t end) {
        for (const double score : merged(begin, end)) {
          sets.scores.push_back(score);
          sets.predicted.push_back(sigmoid(score) >= threshold_of(task));
        }
      });
      return label_set_scores(sets);
    }
    case TaskTarget::word_classes: return word_scores(*data_, tags_);
    case TaskTarget::span: {
      std::vector<std::string> answers;
      visit_examples(*data_, [&](std::int64_t begin, std::int64_t end) {
        std::vector<WindowScores> windows;
        for (std::int64_t i = begin; i < end; ++i) {
          const SampleOutputs& own = outputs_[static_cast<std::size_t>(i)];
          windows.push_back({&data_->sample(i), own.first, own.last});
        }
        const Example& question = data_->example(data_->sample(begin).example);
        answers.push_back(best_answers(*question.pair, windows, task, default_answers)[0].text);
      });
      return span_scores(*data_, answers);
    }
    case TaskTarget::classes:
    case TaskTarget::choice:
    case TaskTarget::none: break;
  }
  std::vector<std::int64_t> predicted;
  std::vector<std::vector<double>> rows;
  visit_examples(*data_, [&](std::int64_t begin, std::int64_t end) {
    rows.push_back(merged(begin, end));
    predicted.push_back(largest(rows.back()));
  });
  return class_scores(*data_, of_examples(*data_, &EncodedSample::label), predicted, rows);
}

TaskScores TaskScorer::scores(double loss) const {
  const auto missing = std::ranges::find(seen_, 0) - seen_.begin();
  require(missing == data_->size(), "TaskScorer: sample {} was not added", missing);
  return decided(*data_, undecided(), loss);
}

TaskScores constant_scores(const TaskDataset& data) {
  return decided(data, scores_of_constant(data), constant_loss(data));
}

double constant_loss(const TaskDataset& data) {
  if (data.target() == TaskTarget::value)
    return *constant_value_scores(data, Counted::windows).value("mse");
  if (data.target() == TaskTarget::label_set)
    return constant_label_set_loss(true_label_sets(data, Counted::windows));
  std::map<std::int64_t, double> counts;
  const std::vector<std::int64_t> labels =
      of_examples(data, &EncodedSample::label, Counted::windows);
  for (const std::int64_t label : labels) ++counts[label];
  double entropy = 0;
  for (const auto& [label, count] : counts) {
    const double share = count / static_cast<double>(labels.size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

void require_different_values(std::span<const double> values, TaskMetric metric,
                              const std::string& name) {
  const double first = values.empty() ? 0 : values[0];
  require_input(std::ranges::any_of(values, [&](double value) { return value != first; }),
                "task.metric {} needs different values, and all of the {} data are {:g}; choose "
                "task.metric loss",
                enum_name(metric), name, first);
}

std::string coarse_columns(const TaskDataset& data, DType dtype) {
  const std::int64_t width = data.width();
  if (width == 0 || !is_half(dtype)) return "";
  std::vector<double> sums(width), squares(width);
  double rows = 0;
  const std::int64_t samples = std::min<std::int64_t>(8, data.size());
  for (std::int64_t k = 0; k < samples; ++k) {
    const std::int64_t i = k * data.size() / samples;
    Tensor read = Tensor::empty({data.length(i), width}, data.feature_dtype());
    data.read_rows(i, read);
    const Tensor values = read.cast(DType::f32);
    for (std::int64_t at = 0; at < values.numel(); ++at) {
      const double value = values.data<float>()[at];
      sums[at % width] += value;
      squares[at % width] += value * value;
    }
    rows += static_cast<double>(data.length(i));
  }
  std::int64_t coarse = 0;
  std::string first;
  for (std::int64_t c = 0; c < width; ++c) {
    const double mean = sums[c] / rows;
    const double spread = std::sqrt(std::max(squares[c] / rows - mean * mean, 0.0));
    if (spread <= 1e-7 * std::abs(mean) || spread > 2 * rounding_of(mean, dtype)) continue;
    if (coarse++ == 0) first = fmt::format("column {} is {:.6g} ± {:.2g}", c, mean, spread);
  }
  if (coarse == 0) return "";
  return fmt::format(
      "{} of {} columns of the features vary by less than {} tells apart ({}); subtract their "
      "means, or set training.dtype: f32",
      coarse, width, name_of(dtype), first);
}

void require_fine_values(const TaskDataset& data, DType dtype) {
  if (data.target() != TaskTarget::value) return;
  const std::vector<double> values = of_examples(data, &EncodedSample::value);
  if (std::ranges::adjacent_find(values, std::not_equal_to()) == values.end()) return;
  const auto count = static_cast<double>(values.size());
  double mean = 0, squares = 0, largest = 0;
  for (const double value : values) {
    mean += value / count;
    largest = std::max(largest, std::abs(value));
  }
  for (const double value : values)
    squares += (value - mean) / largest * ((value - mean) / largest) / count;
  const double spread = largest * std::sqrt(squares);
  require_input(std::numeric_limits<float>::min() < 0.001 * spread,
                "the values of the training data spread by {:.3g}, too little for f32; multiply "
                "them by a constant",
                spread);
  const auto require_finer = [&](double rounding, double share, const char* type,
                                 const char* remedy) {
    require_input(rounding < share * spread,
                  "the values of the training data spread by {:.3g} about {:.9g}, where {} rounds "
                  "by {:.1g}; subtract their mean{}",
                  spread, mean, type, rounding, remedy);
  };
  require_finer(std::ldexp(largest, -24), 0.001, "f32", "");
  if (is_half(dtype))
    require_finer(rounding_of(mean, dtype), 0.1, name_of(dtype), ", or set training.dtype: f32");
}

void require_targets(const TaskDataset& data, const std::string& name) {
  bool some = data.target() != TaskTarget::word_classes;
  for (std::int64_t i = 0; i < data.size() && !some; ++i)
    some = std::ranges::any_of(data.sample(i).word_starts,
                               [](std::int64_t start) { return start >= 0; });
  require_input(some, "no word of {} has a token; correct the words, or choose another tokenizer",
                name);
}

void require_decidable(const TaskDataset& data, TaskMetric metric, const std::string& name) {
  if (metric == TaskMetric::pearson || metric == TaskMetric::spearman)
    return require_different_values(of_examples(data, &EncodedSample::value), metric, name);
  const auto require_some = [&](bool some, const std::string& needed, const std::string& held) {
    require_input(some,
                  "task.metric {} needs {}, and the {} data have {}; choose another task.metric",
                  enum_name(metric), needed, name, held);
  };
  const auto label_name = [&](std::size_t label) {
    return "'" + printable(data.labels().names()[label]) + "'";
  };
  if (data.target() == TaskTarget::word_classes && metric == TaskMetric::f1) {
    bool entity = false;
    for (const std::vector<std::string>& tags : true_tags(data))
      entity |= std::ranges::any_of(
          tags, [](const std::string& tag) { return !tag.empty() && tag != "O"; });
    require_some(entity, "an entity", "none");
  }
  if (data.target() == TaskTarget::label_set && metric != TaskMetric::exact_match &&
      metric != TaskMetric::loss) {
    bool label = false;
    for (std::int64_t i = 0; i < data.size(); ++i) label |= !data.sample(i).labels.empty();
    require_some(label, "texts with a label", "none");
  }
  if (data.target() != TaskTarget::classes) return;
  std::vector<bool> seen(static_cast<std::size_t>(data.labels().size()));
  for (const std::int64_t label : of_examples(data, &EncodedSample::label))
    seen[static_cast<std::size_t>(label)] = true;
  const auto missing = static_cast<std::size_t>(std::ranges::find(seen, false) - seen.begin());
  if (metric == TaskMetric::auc && missing < seen.size())
    require_some(false, "examples of every label", "none of " + label_name(missing));
  if (metric == TaskMetric::f1 && !seen.at(1))
    require_some(false, "examples of the second label", "none of " + label_name(1));
  if (metric == TaskMetric::kappa || metric == TaskMetric::matthews) {
    const auto only = static_cast<std::size_t>(std::ranges::find(seen, true) - seen.begin());
    require_some(std::ranges::count(seen, true) > 1, "examples of two labels",
                 "those of " + label_name(only) + " alone");
  }
}

const char* constant_prediction(TaskTarget target) {
  return target == TaskTarget::value       ? "the mean value"
         : target == TaskTarget::label_set ? "the most frequent labels"
         : target == TaskTarget::span      ? "no answer"
         : target == TaskTarget::choice    ? "the most frequent choice"
                                           : "the most frequent label";
}

TaskMetric deciding_metric(const TaskDataset& dataset) {
  const std::vector<TaskMetric> fitting = fitting_metrics(dataset);
  const TaskMetric metric = dataset.task().metric.value_or(fitting[0]);
  require_input(std::ranges::find(fitting, metric) != fitting.end(),
                "task.metric {} does not measure this task: {}; expected one of {}",
                enum_name(metric),
                dataset.target() == TaskTarget::value
                    ? "it predicts numbers"
                    : fmt::format("it has {} labels", dataset.labels().size()),
                fmt::join(names_of(fitting), ", "));
  return metric;
}

bool better(double a, double b, bool higher_is_better) {
  return !std::isnan(a) && (std::isnan(b) || (higher_is_better ? a > b : a < b));
}

}  // namespace nystrom
