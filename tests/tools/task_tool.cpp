// The data side of tasks as a command line tool, for tests/reference/check_tasks.py and manual use.
// TASK is the section `task` of a configuration in JSON.
//   task_tool rows TASK                      reads task.train without labels, counts its examples
//   task_tool listops TASK                   evaluates the expressions of task.train, counts wrong
//                                            labels
//   task_tool report TASK TOKENIZER LENGTH   statistics of task.train and task.validation
//   task_tool encode TASK TOKENIZER LENGTH   a JSON line for each sample of task.train
//   task_tool answers TASK TOKENIZER LENGTH  how many gold answers the windows of task.train return
//   task_tool features FILE                  valid features and targets of a feature file, as JSON
//   task_tool metrics < CASES                a JSON line of metrics for each JSON line
//                                            {truth, predicted}
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "data/tasks/task_scorer.h"
#include "data/tasks/task_statistics.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/data/tasks/metric_cases.h"
#include "tests/support/listops.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

/// Reads the fields of a struct from a JSON object.
struct JsonReader {
  const Json& object;

  template <class T, class... Ranges>
  void operator()(T& member, const char* name, const char*, const Ranges&...) {
    if (object.contains(name)) read(member, object[name]);
  }

  template <class T>
  static void read(T& value, const Json& json) {
    if constexpr (is_optional<T>) {
      read(value.emplace(), json);
    } else if constexpr (Section<T>) {
      JsonReader inner{json};
      fields(inner, value);
    } else if constexpr (std::is_enum_v<T>) {
      for (const auto& entry : enum_names(value))
        if (json == entry.name) value = entry.value;
    } else {
      value = json.get<T>();
    }
  }
};

TaskConfig task_of(const std::string& text) {
  TaskConfig task;
  const Json json = Json::parse(text);
  JsonReader reader{json};
  fields(reader, task);
  const auto lines = messages_of(problems(task));
  require_input(lines.empty(), "{}", fmt::join(lines, "\n"));
  return resolve_task(task);
}

/// The common parts of all commands on a task.
struct Setup {
  TaskConfig task;
  std::unique_ptr<Tokenizer> tokenizer;
  TaskEncoder encoder;

  explicit Setup(const Arguments& arguments)
      : task(task_of(arguments.at(1))),
        tokenizer(open_tokenizer(arguments.at(2))),
        encoder(task, task_labels(task), *tokenizer, std::stoll(arguments.at(3))) {}
};

void rows(const Arguments& arguments) {
  const TaskConfig task = task_of(arguments.at(1));
  std::int64_t examples = 0;
  SkippedRows skipped;
  for_each_example(task, task.train, Labelled::optional, skipped,
                   [&](const Example&) { ++examples; });
  fmt::print("{} examples, {} rows left out\n", examples, skipped.count);
}

void listops(const Arguments& arguments) {
  const TaskConfig task = task_of(arguments.at(1));
  std::int64_t examples = 0, wrong = 0;
  SkippedRows skipped;
  for_each_example(task, task.train, Labelled::required, skipped, [&](const Example& example) {
    ++examples;
    wrong += std::to_string(testing::evaluate_listops(example.text)) != example.label;
  });
  fmt::print("{} examples, {} labels are not the value\n", examples, wrong);
}

Json to_json(const TaskSetStatistics& report) {
  const EncodingCounts& counts = report.encoding;
  Json labels = Json::object();
  for (const auto& [label, count] : report.labels) labels[label] = count;
  return {{"examples", counts.examples},
          {"samples", counts.samples},
          {"tokens", counts.tokens},
          {"longest", counts.longest},
          {"median", report.median_length},
          {"truncated", counts.truncated.count},
          {"unknown", counts.unknown},
          {"answers_cut", counts.answers_cut},
          {"skipped", report.skipped.count},
          {"labels", labels},
          {"numbers", {report.smallest, report.mean, report.largest}},
          {"duplicates", report.duplicates},
          {"contradictions", report.contradictions}};
}

void report(const Arguments& arguments) {
  const Setup setup(arguments);
  const auto start = std::chrono::steady_clock::now();
  const auto train = TaskDataset::read(setup.encoder, setup.task.train, Labelled::required, true);
  const auto& validation_files =
      setup.task.validation.empty() ? setup.task.train : setup.task.validation;
  const auto validation =
      TaskDataset::read(setup.encoder, validation_files, Labelled::required, true);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const TaskStatistics report = task_statistics(train, validation);
  const Json json = {{"train", to_json(report.train)},
                     {"validation", to_json(report.validation)},
                     {"overlap", report.overlap},
                     {"warnings", task_warnings(report)},
                     {"seconds", seconds}};
  fmt::print("{}\n", json.dump(2));
}

void encode(const Arguments& arguments) {
  const Setup setup(arguments);
  const auto data = TaskDataset::read(setup.encoder, setup.task.train, Labelled::required, true);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const EncodedSample& sample = data.sample(i);
    Json rows = Json::array(), places = Json::array();
    for (const WrappedIds& row : sample.rows)
      rows.push_back({{"ids", row.ids}, {"types", row.type_ids}});
    for (const TextRange& range : sample.places) places.push_back({range.begin, range.end});
    const Json json = {{"example", sample.example},
                       {"rows", rows},
                       {"label", sample.label},
                       {"word_labels", sample.labels},
                       {"word_starts", sample.word_starts},
                       {"start", sample.start},
                       {"end", sample.end},
                       {"context_begin", sample.context_begin},
                       {"places", places}};
    fmt::print("{}\n", json.dump());
  }
}

void answers(const Arguments& arguments) {
  const Setup setup(arguments);
  auto data = std::make_shared<TaskDataset>(
      TaskDataset::read(setup.encoder, setup.task.train, Labelled::required, true));
  TaskScorer scorer(data);
  TaskEvaluationLoader loader(data, {});
  std::int64_t exact = 0;
  while (const auto batch = loader.next()) {
    std::int64_t longest = 0;
    for (const std::int64_t sample : batch->samples)
      longest = std::max(longest, data->length(sample));
    Tensor start = Tensor::zeros({std::ssize(batch->samples), longest}, DType::f32),
           end = start.clone();
    for (std::size_t i = 0; i < batch->samples.size(); ++i) {
      const EncodedSample& sample = data->sample(batch->samples[i]);
      const std::int64_t row = static_cast<std::int64_t>(i) * start.dim(1);
      start.data<float>()[row + sample.start] = 10;
      end.data<float>()[row + sample.end] = 10;
      if (sample.start == 0) continue;
      const auto scores = [&](const Tensor& all) {
        return all.slice(0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1)
            .to_doubles();
      };
      const std::vector<double> starts = scores(start), ends = scores(end);
      const WindowScores window{&sample, starts, ends};
      const Example& example = data->example(sample.example);
      const auto best = best_answers(*example.pair, std::span(&window, 1), data->task(), 1);
      if (best[0].text == example.answers[0].text)
        ++exact;
      else
        fmt::print(stderr, "window {}: '{}' instead of '{}'\n", batch->samples[i], best[0].text,
                   example.answers[0].text);
    }
    for (const SampleOutputs& outputs : outputs_by_sample(*data, batch->samples, start, end))
      scorer.add(outputs);
  }
  const auto scores = scorer.scores(/*loss=*/0);
  std::int64_t with_answer = 0;
  for (std::int64_t i = 0; i < data->size(); ++i) with_answer += data->sample(i).start > 0;
  fmt::print(
      "{} questions, {} windows, {} with the answer, {} give its text; in no window: {}; f1 "
      "{:.5f}, exact match {:.5f}\n",
      data->examples(), data->size(), with_answer, exact, data->counts().answers_cut,
      scores.values[0].second, scores.values[1].second);
}

void features(const Arguments& arguments) {
  const FeatureFile file(arguments.at(1));
  Json samples = Json::array();
  for (std::int64_t i = 0; i < file.samples(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(file.length(i) * file.width()));
    file.read(i, values);
    samples.push_back(values);
  }
  const Json targets = file.labels().empty() ? Json(file.values()) : Json(file.labels());
  fmt::print("{}\n", Json{{"features", samples}, {"targets", targets}}.dump());
}

void metrics() {
  for (std::string line; std::getline(std::cin, line);)
    fmt::print("{}\n", metrics_of_case(Json::parse(line)).dump());
}

void run(const Arguments& arguments) {
  const std::string& command = arguments.at(0);
  if (command == "rows") return rows(arguments);
  if (command == "listops") return listops(arguments);
  if (command == "report") return report(arguments);
  if (command == "encode") return encode(arguments);
  if (command == "answers") return answers(arguments);
  if (command == "features") return features(arguments);
  if (command == "metrics") return metrics();
  throw InputError("unknown command '" + command + "'");
}

}  // namespace
}  // namespace nystrom

int main(int count, char** arguments) {
  try {
    nystrom::run({arguments + 1, arguments + count});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
