#include "data/tasks/task_statistics.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/long_list.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

void count_labels(const TaskDataset& data, TaskSetStatistics& report) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(data.labels().size()));
  std::map<std::int64_t, std::int64_t> places;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const EncodedSample& sample = data.sample(i);
    if (!sample.labelled || !data.begins_example(i)) continue;
    if (data.target() == TaskTarget::classes) ++counts[static_cast<std::size_t>(sample.label)];
    if (data.target() == TaskTarget::choice) ++places[sample.label];
    report.without_label += data.target() == TaskTarget::label_set && sample.labels.empty();
    for (const std::int64_t label : sample.labels) ++counts[static_cast<std::size_t>(label)];
    if (data.target() == TaskTarget::value) {
      report.smallest = report.values == 0 ? sample.value : std::min(report.smallest, sample.value);
      report.largest = report.values == 0 ? sample.value : std::max(report.largest, sample.value);
      report.mean += (sample.value - report.mean) / static_cast<double>(++report.values);
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i)
    report.labels.emplace_back(data.labels().names()[i], counts[i]);
  for (const auto& [place, count] : places)
    report.labels.emplace_back(std::to_string(place), count);
}

/// The label of the first row, if only that row has it. A header that is read as a row looks like
/// this.
std::string lone_first_label(const TaskDataset& data, const TaskSetStatistics& report) {
  const TaskConfig& task = data.task();
  const bool classes = data.target() == TaskTarget::classes && !task.header.value_or(true);
  const bool words = data.target() == TaskTarget::word_classes &&
                     task.metric == TaskMetric::accuracy;  // else they have entity tags
  if ((!words && !classes) || data.size() == 0 || !data.sample(0).labelled) return "";
  const EncodedSample& first = data.sample(0);
  const auto& [label, count] =
      report.labels[static_cast<std::size_t>(words ? first.labels[0] : first.label)];
  const bool others_repeat =
      std::ranges::any_of(report.labels, [](const auto& entry) { return entry.second > 1; });
  return count == 1 && others_repeat ? label : "";
}

void count_duplicates(const TaskDataset& data, TaskSetStatistics& report) {
  const bool values = data.target() == TaskTarget::value;  // else they are NaN
  std::map<Digest, std::tuple<std::int64_t, double, std::vector<std::int64_t>>> known;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const EncodedSample& sample = data.sample(i);
    if (!data.begins_example(i)) continue;
    const std::tuple truth(sample.label, values ? sample.value : 0, sample.labels);
    const auto [first, added] =
        known.try_emplace(data.digests()[static_cast<std::size_t>(sample.example)], truth);
    report.duplicates += !added;
    report.contradictions += !added && first->second != truth;
  }
}

TaskSetStatistics report_set(const TaskDataset& data) {
  TaskSetStatistics report;
  report.encoding = data.counts();
  report.may_have_windows =
      data.kind() == TaskKind::classification || data.kind() == TaskKind::regression;
  report.skipped = data.skipped();
  count_labels(data, report);
  report.lone_first_label = lone_first_label(data, report);
  count_duplicates(data, report);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < data.size(); ++i) lengths.push_back(data.sample(i).full_length);
  if (lengths.empty()) return report;
  std::ranges::sort(lengths);
  const std::size_t last = lengths.size() - 1;
  report.median_length =
      (static_cast<double>(lengths[last / 2]) + static_cast<double>(lengths[(last + 1) / 2])) / 2;
  return report;
}

double percent(std::int64_t part, std::int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string describe_blank(const EncodingCounts& counts) {
  return fmt::format("{} examples have an empty text, or one of white space alone; the first: {}",
                     counts.blank.count, counts.blank.first);
}

void warn_about_set(const std::string& name, const TaskSetStatistics& report,
                    std::vector<std::string>& lines) {
  const EncodingCounts& encoding = report.encoding;
  add_new_notes(lines, report.skipped.notes);
  if (report.skipped.count > 0)
    lines.push_back(fmt::format("{}: {} rows were left out; the first: {}", name,
                                report.skipped.count, report.skipped.first));
  if (encoding.blank.count > 0) lines.push_back(name + ": " + describe_blank(encoding));
  if (encoding.truncated.count * 10 > encoding.examples)
    lines.push_back(fmt::format(
        "{}: {:.0f} % of the examples are cut ({} of {}; the longest has {}); raise "
        "data.sequence_length{}",
        name, percent(encoding.truncated.count, encoding.examples), encoding.truncated.count,
        encoding.examples, encoding.longest,
        report.may_have_windows
            ? "; single texts with a label or a number may be read in windows (task.windows)"
            : ""));
  if (report.values > 0 && report.smallest == report.largest)
    lines.push_back(fmt::format("{}: all values are {}; the correlation with them is undefined",
                                name, report.smallest));
  if (report.contradictions > 0)
    lines.push_back(
        fmt::format("{}: {} examples have the inputs of an earlier one and another label", name,
                    report.contradictions));
  if (encoding.answers_cut > 0)
    lines.push_back(
        fmt::format("{}: the answers of {} questions lie whole in no window; raise task.stride",
                    name, encoding.answers_cut));
  if (const std::string unknown = describe_unknown(encoding); !unknown.empty())
    lines.push_back(fmt::format("{}: {}", name, unknown));
  if (!report.lone_first_label.empty())
    lines.push_back(
        fmt::format("{}: only the first row has the label '{}'; if it names the columns, set "
                    "task.header: true, or remove it from a file of words",
                    name, printable(report.lone_first_label)));
  std::vector<std::string> absent;
  for (const auto& [label, count] : report.labels)
    if (count == 0) absent.push_back("'" + printable(label) + "'");
  if (!absent.empty())
    lines.push_back(fmt::format("{}: the label{} {} never occur{}", name,
                                absent.size() == 1 ? "" : "s", long_list(absent, 5),
                                absent.size() == 1 ? "s" : ""));
}

}  // namespace

TaskStatistics task_statistics(const TaskDataset& train, const TaskDataset& validation) {
  TaskStatistics report{report_set(train), report_set(validation), 0, constant_scores(validation),
                        constant_prediction(validation.target())};
  if (report.baseline.metric == "loss" && validation.target() == TaskTarget::classes)
    report.baseline_prediction = "the shares of the labels";
  report.overlap = count_known(validation.digests(), train.digests());
  return report;
}

std::string describe_unknown(const EncodingCounts& counts) {
  return counts.unknown * 20 > counts.tokens
             ? fmt::format("{:.0f} % of the tokens are unknown to the tokenizer",
                           percent(counts.unknown, counts.tokens))
             : "";
}

std::string describe_cut(TaskKind kind, const EncodingCounts& counts,
                         std::int64_t sequence_length) {
  if (counts.truncated.count == 0) return "";
  const std::string what = kind == TaskKind::questions ? "with a question cut to half of a window"
                           : kind == TaskKind::features
                               ? fmt::format("cut to {} steps", sequence_length)
                               : fmt::format("cut to {} tokens", sequence_length);
  return fmt::format("{} {} ({:.1f} %; the first: {})", counts.truncated.count, what,
                     percent(counts.truncated.count, counts.examples), counts.truncated.first);
}

void warn_of_losses(TaskKind kind, const EncodingCounts& counts, std::int64_t sequence_length,
                    Log& log) {
  const std::string cut = describe_cut(kind, counts, sequence_length);
  if (!cut.empty())
    log.warn(fmt::format("{} examples: {}; the rest was not read", counts.examples, cut));
  if (counts.blank.count > 0) log.warn(describe_blank(counts));
  if (const std::string unknown = describe_unknown(counts); !unknown.empty()) log.warn(unknown);
}

std::vector<std::string> task_warnings(const TaskStatistics& report) {
  std::vector<std::string> lines;
  warn_about_set("training", report.train, lines);
  std::vector<std::string> labels;
  for (const auto& [label, count] : report.train.labels) labels.push_back(label);
  for (const auto& [first, second] : labels_alike(labels))
    lines.push_back(fmt::format(
        "the labels '{}' and '{}' differ only in white space, characters without width, case, "
        "Unicode form or the form of a number; if they mean the same, correct the files",
        printable(first), printable(second)));
  warn_about_set("validation", report.validation, lines);
  if (report.overlap > 0)
    lines.push_back(fmt::format(
        "validation: {} of {} examples are in the training data too; their score is no test",
        report.overlap, report.validation.encoding.examples));
  return lines;
}

}  // namespace nystrom
