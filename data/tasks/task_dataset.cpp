#include "data/tasks/task_dataset.h"

#include <algorithm>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/check.h"
#include "data/tasks/word_cut.h"
#include "data/text/match_files.h"
#include "data/text/text.h"

namespace nystrom {
namespace {

TaskTarget target_of(const TaskConfig& task) {
  switch (*task.kind) {
    case TaskKind::classification:
      return *task.multi_label ? TaskTarget::label_set : TaskTarget::classes;
    case TaskKind::regression: return TaskTarget::value;
    case TaskKind::tokens: return TaskTarget::word_classes;
    case TaskKind::questions: return TaskTarget::span;
    case TaskKind::choice: return TaskTarget::choice;
    case TaskKind::features:
    case TaskKind::embeddings: break;
  }
  return TaskTarget::none;
}

}  // namespace

struct TaskDataset::State {
  TaskConfig task;
  TaskTarget target = TaskTarget::none;
  LabelSet labels;
  bool keep = false;
  std::vector<EncodedSample> samples;
  std::vector<std::int64_t> lengths;
  std::vector<Example> kept;
  std::vector<Digest> digests;
  EncodingCounts counts;
  SkippedRows skipped;
  WordCutFinder words;
  std::vector<FeatureFile> files;
  std::vector<std::int64_t> first_of_file;  // index of each file's first sample
  std::vector<std::int64_t> numbers;        // of each sample in its file
  std::vector<BagFile> bags;
  std::vector<std::string> names;  // of the bags
  std::vector<double> weights;     // of the bags

  State(const TaskEncoder& encoder, bool keep_examples)
      : task(encoder.task()),
        target(target_of(task)),
        labels(encoder.labels()),
        keep(keep_examples) {}
  explicit State(const TaskConfig& features) : task(features) {}

  void add(const TaskEncoder& encoder, Example&& example) {
    check_interruption();
    if (!samples.empty() && samples[0].rows.size() != example.choices.size() &&
        target == TaskTarget::choice)
      throw BadRow(fmt::format("{}: {} to choose from, the first example has {}; all need as many",
                               example.place(), example.choices.size(), samples[0].rows.size()));
    for (EncodedSample& sample : encoder.encode(example, counts)) {
      lengths.push_back(sample.length());
      samples.push_back(std::move(sample));
    }
    digests.push_back(digest_of(example));
    for (const std::string& word : example.words) words.add(word);
    if (keep) kept.push_back(std::move(example));
  }

  /// Opens another file, whose samples must have the same form, and takes some of them.
  void add_file(const std::filesystem::path& path, Labelled labelled, std::int64_t sequence_length,
                const std::function<bool(std::int64_t)>& takes);
  void add_feature_sample(const FeatureFile& file, std::int64_t number,
                          std::int64_t sequence_length);
  void add_bag(const Bag& bag);
};

TaskDataset::TaskDataset(std::unique_ptr<State> state) : state_(std::move(state)) {}
TaskDataset::TaskDataset(TaskDataset&&) noexcept = default;
TaskDataset& TaskDataset::operator=(TaskDataset&&) noexcept = default;
TaskDataset::~TaskDataset() = default;

TaskDataset TaskDataset::read(const TaskEncoder& encoder, const ExampleSource& source,
                              Labelled labelled, bool keep_examples) {
  auto state = std::make_unique<State>(encoder, keep_examples);
  for_each_example(encoder.task(), source, labelled, state->skipped,
                   [&](Example&& example) { state->add(encoder, std::move(example)); });
  require_input(!state->samples.empty(), "{}",
                describe_unreadable(source.patterns, state->skipped));
  return TaskDataset(std::move(state));
}

TaskDataset TaskDataset::from(const TaskEncoder& encoder, const std::vector<Example>& examples,
                              bool keep_examples) {
  auto state = std::make_unique<State>(encoder, keep_examples);
  for (Example example : examples) state->add(encoder, std::move(example));
  return TaskDataset(std::move(state));
}

// ---- Features -----------------------------------------------------------------------------------

void TaskDataset::State::add_file(const std::filesystem::path& path, Labelled labelled,
                                  std::int64_t sequence_length,
                                  const std::function<bool(std::int64_t)>& takes) {
  FeatureFile file(path);
  const std::string name = printable_path(path);
  const TaskTarget found = !file.labels().empty()   ? TaskTarget::classes
                           : !file.values().empty() ? TaskTarget::value
                                                    : TaskTarget::none;
  require_input(labelled == Labelled::optional || found != TaskTarget::none,
                "{}: it holds neither 'labels' nor 'values'; one of them holds the targets", name);
  if (files.empty()) target = found;
  require_input(target == found,
                "{}: '{}' holds classes and the other numbers, or one of them nothing, to predict",
                name, printable_path(files.empty() ? path : files[0].path()));
  require_input(files.empty() || files[0].width() == file.width(),
                "{}: its features are {} wide, those of '{}' {}", name, file.width(),
                printable_path(files.empty() ? path : files[0].path()),
                files.empty() ? 0 : files[0].width());
  first_of_file.push_back(static_cast<std::int64_t>(samples.size()));
  for (std::int64_t i = 0; i < file.samples(); ++i)
    if (takes(i)) add_feature_sample(file, i, sequence_length);
  files.push_back(std::move(file));
}

void TaskDataset::State::add_feature_sample(const FeatureFile& file, std::int64_t number,
                                            std::int64_t sequence_length) {
  const auto at = static_cast<std::size_t>(number);
  const std::int64_t length = file.length(number), kept_length = std::min(length, sequence_length);
  EncodedSample sample;
  sample.example = counts.examples++;
  sample.labelled = target != TaskTarget::none;
  sample.full_length = length;
  if (target == TaskTarget::classes) sample.label = file.labels()[at];
  if (target == TaskTarget::value) sample.value = file.values()[at];
  samples.push_back(std::move(sample));
  numbers.push_back(number);
  lengths.push_back(kept_length);
  ++counts.samples;
  counts.tokens += kept_length;
  counts.longest = std::max(counts.longest, length);
  if (length > kept_length && counts.truncated.count++ == 0)
    counts.truncated.first = fmt::format("{}: sample {}", printable_path(file.path()), number);
  counts.removed_tokens += length - kept_length;
  digests.push_back(digest_of(file, number));
}

TaskDataset TaskDataset::read_features(const TaskConfig& task, const ExampleSource& source,
                                       Labelled labelled, const LabelSet& labels,
                                       std::int64_t sequence_length) {
  require(task.kind == TaskKind::features, "read_features: the task is not of features");
  require_input(!source.patterns.empty(), "the task names no files to read");
  if (are_bag_tables(task, source.patterns)) {
    std::vector<Bag> bags = nystrom::read_bags(task, source.patterns, labelled), taken;
    for (std::size_t i = 0; i < bags.size(); ++i)
      if (source.takes(static_cast<std::int64_t>(i))) taken.push_back(std::move(bags[i]));
    return of_bags(task, taken, labelled, labels);
  }
  auto state = std::make_unique<State>(task);
  const std::vector<std::filesystem::path> paths = match_files(source.patterns);
  if (labelled == Labelled::required) refuse_single_bag(paths[0]);
  if (is_bag_file(paths[0])) {
    std::vector<Bag> bags;
    for (const auto& path : paths) {
      bags.emplace_back();
      bags.back().place = bags.back().id = printable_path(path);
      bags.back().file = path;
    }
    return of_bags(task, bags, labelled, labels);
  }
  std::int64_t number = 0;  // over all files
  for (const auto& path : paths)
    state->add_file(path, labelled, sequence_length,
                    [&](std::int64_t) { return source.takes(number++); });
  if (state->target != TaskTarget::classes) return TaskDataset(std::move(state));
  std::int64_t largest = 0;
  for (const EncodedSample& sample : state->samples) largest = std::max(largest, sample.label);
  state->labels = labels.size() > 0     ? labels
                  : task.labels.empty() ? numbered_labels(std::max<std::int64_t>(largest + 1, 2))
                                        : LabelSet(task.labels);
  for (std::size_t i = 0; i < state->samples.size(); ++i) {
    const auto file = static_cast<std::size_t>(
        std::ranges::upper_bound(state->first_of_file, static_cast<std::int64_t>(i)) -
        state->first_of_file.begin() - 1);
    require_input(state->samples[i].label < state->labels.size(),
                  "{}: labels[{}] is {}, but there are {} labels, numbered from 0",
                  printable_path(state->files[file].path()), state->numbers[i],
                  state->samples[i].label, state->labels.size());
  }
  return TaskDataset(std::move(state));
}

void TaskDataset::State::add_bag(const Bag& bag) {
  check_interruption();
  BagFile file(bag.file);
  require_input(bags.empty() || bags[0].width() == file.width(),
                "{}: its features are {} wide, those of '{}' {}", printable_path(bag.file),
                file.width(), bags.empty() ? "" : printable_path(bags[0].path()),
                bags.empty() ? 0 : bags[0].width());
  EncodedSample sample;
  sample.example = counts.examples++;
  sample.labelled = target != TaskTarget::none;
  sample.full_length = file.rows();
  if (target == TaskTarget::value) sample.value = *bag.value;
  if (target == TaskTarget::classes) {
    sample.label = labels.find(*bag.label);
    require_input(sample.label >= 0, "{}: unknown label '{}'{}; {}", bag.place,
                  printable(*bag.label, 80), did_you_mean(*bag.label, labels.names()),
                  describe(labels));
  }
  samples.push_back(std::move(sample));
  lengths.push_back(file.rows());
  ++counts.samples;
  counts.tokens += file.rows();
  counts.longest = std::max(counts.longest, file.rows());
  names.push_back(bag.id);
  weights.push_back(bag.weight);
  digests.push_back(file.digest());
  bags.push_back(std::move(file));
}

TaskDataset TaskDataset::of_bags(const TaskConfig& task, const std::vector<Bag>& bags,
                                 Labelled labelled, const LabelSet& labels) {
  require(task.kind == TaskKind::features, "of_bags: the task is not of features");
  auto state = std::make_unique<State>(task);
  state->labels = labels;
  if (labelled == Labelled::required)
    state->target = task.columns.value ? TaskTarget::value : TaskTarget::classes;
  for (const Bag& bag : bags) state->add_bag(bag);
  return TaskDataset(std::move(state));
}

void TaskDataset::read_sample_features(std::int64_t index, std::span<float> features) const {
  const State& s = *state_;
  if (has_bags()) {
    Tensor rows = Tensor::empty({length(index), width()}, DType::f32);
    bag(index).read(rows);
    std::copy_n(rows.data<float>(), rows.numel(), features.begin());
    return;
  }
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(s.first_of_file, index) -
                                             s.first_of_file.begin() - 1);
  const std::int64_t kept = length(index) * width(),
                     number = s.numbers[static_cast<std::size_t>(index)];
  require(static_cast<std::int64_t>(features.size()) == kept,
          "read_sample_features: room for {} numbers of {}", features.size(), kept);
  std::vector<float> all(static_cast<std::size_t>(s.files[file].length(number) * width()));
  s.files[file].read(number, all);
  std::copy_n(all.begin(), kept, features.begin());
}

// ---- What there is ------------------------------------------------------------------------------

TaskKind TaskDataset::kind() const { return *state_->task.kind; }
TaskTarget TaskDataset::target() const { return state_->target; }
const TaskConfig& TaskDataset::task() const { return state_->task; }
const LabelSet& TaskDataset::labels() const { return state_->labels; }

std::int64_t TaskDataset::outputs() const {
  switch (state_->target) {
    case TaskTarget::classes:
    case TaskTarget::label_set:
    case TaskTarget::word_classes: return state_->labels.size();
    case TaskTarget::value:
    case TaskTarget::choice: return 1;
    case TaskTarget::span: return 2;
    case TaskTarget::none: return 0;
  }
  return 0;
}

std::int64_t TaskDataset::size() const { return static_cast<std::int64_t>(state_->samples.size()); }
std::int64_t TaskDataset::examples() const { return state_->counts.examples; }

const EncodedSample& TaskDataset::sample(std::int64_t index) const {
  require(index >= 0 && index < size(), "task data: sample {} of {}", index, size());
  return state_->samples[static_cast<std::size_t>(index)];
}

std::int64_t TaskDataset::length(std::int64_t index) const {
  require(index >= 0 && index < size(), "task data: sample {} of {}", index, size());
  return state_->lengths[static_cast<std::size_t>(index)];
}

const Example& TaskDataset::example(std::int64_t index) const {
  require(index >= 0 && index < static_cast<std::int64_t>(state_->kept.size()),
          "task data: example {} of {} kept", index, state_->kept.size());
  return state_->kept[static_cast<std::size_t>(index)];
}

bool TaskDataset::keeps_examples() const { return state_->keep; }
std::int64_t TaskDataset::width() const {
  if (has_bags()) return state_->bags[0].width();
  return state_->files.empty() ? 0 : state_->files[0].width();
}
bool TaskDataset::has_bags() const { return !state_->bags.empty(); }

const BagFile& TaskDataset::bag(std::int64_t index) const {
  require(index >= 0 && index < std::ssize(state_->bags), "task data: bag {} of {}", index,
          state_->bags.size());
  return state_->bags[static_cast<std::size_t>(index)];
}

DType TaskDataset::bag_dtype() const {
  const bool half = std::ranges::all_of(
      state_->bags, [](const BagFile& bag) { return bag.dtype() == DType::f16; });
  return half ? DType::f16 : DType::f32;
}

std::string TaskDataset::sample_name(std::int64_t index) const {
  return has_bags() ? state_->names[static_cast<std::size_t>(index)]
                    : fmt::format("sample {}", index);
}

double TaskDataset::weight(std::int64_t index) const {
  return has_bags() ? state_->weights[static_cast<std::size_t>(index)] : 1;
}

void TaskDataset::add_notes(const std::vector<std::string>& notes) {
  std::ranges::copy(notes, std::back_inserter(state_->skipped.notes));
}

const EncodingCounts& TaskDataset::counts() const { return state_->counts; }
const SkippedRows& TaskDataset::skipped() const { return state_->skipped; }
WordCut TaskDataset::word_cut() const { return state_->words.cut(); }
const std::vector<Digest>& TaskDataset::digests() const { return state_->digests; }

}  // namespace nystrom
