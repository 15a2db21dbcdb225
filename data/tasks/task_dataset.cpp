#include "data/tasks/task_dataset.h"

#include <algorithm>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/check.h"
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

/// Throws an InputError when two files have features of different widths.
template <class File>
void require_same_width(const File& file, const File& first) {
  require_input(file.width() == first.width(), "{}: its features are {} wide, those of '{}' {}",
                printable_path(file.path()), file.width(), printable_path(first.path()),
                first.width());
}

}  // namespace

TaskDataset::TaskDataset(const TaskEncoder& encoder, bool keep_examples)
    : task_(encoder.task()),
      target_(target_of(task_)),
      labels_(encoder.labels()),
      keeps_examples_(keep_examples) {}

void TaskDataset::add(const TaskEncoder& encoder, Example&& example) {
  check_interruption();
  if (!samples_.empty() && samples_[0].rows.size() != example.choices.size() &&
      target_ == TaskTarget::choice)
    throw BadRow(fmt::format("{}: {} to choose from, the first example has {}; all need as many",
                             example.place(), example.choices.size(), samples_[0].rows.size()));
  Checksum inputs;  // as the model reads them: a tokenizer may leave out case and spaces
  for (EncodedSample& sample : encoder.encode(example, counts_)) {
    for (const WrappedIds& row : sample.rows) inputs.add_counted(row.ids);
    lengths_.push_back(sample.length());
    samples_.push_back(std::move(sample));
  }
  digests_.push_back(inputs.digest());
  for (const std::string& word : example.words) words_.add(word);
  if (keeps_examples_) kept_.push_back(std::move(example));
}

TaskDataset TaskDataset::read(const TaskEncoder& encoder, const ExampleSource& source,
                              Labelled labelled, bool keep_examples) {
  TaskDataset data(encoder, keep_examples);
  for_each_example(encoder.task(), source, labelled, data.skipped_,
                   [&](Example&& example) { data.add(encoder, std::move(example)); });
  require_input(!data.samples_.empty(), "{}", describe_unreadable(source.patterns, data.skipped_));
  return data;
}

TaskDataset TaskDataset::from(const TaskEncoder& encoder, const std::vector<Example>& examples,
                              bool keep_examples) {
  TaskDataset data(encoder, keep_examples);
  for (Example example : examples) data.add(encoder, std::move(example));
  return data;
}

// ---- Features -----------------------------------------------------------------------------------

void TaskDataset::add_file(const std::filesystem::path& path, Labelled labelled,
                           std::int64_t sequence_length, const std::function<bool()>& takes_next) {
  FeatureFile file(path, labelled != Labelled::optional);
  const std::string name = printable_path(path);
  const TaskTarget found = labelled == Labelled::for_parts ? TaskTarget::none
                           : !file.labels().empty()        ? TaskTarget::classes
                           : !file.values().empty()        ? TaskTarget::value
                                                           : TaskTarget::none;
  require_input(labelled != Labelled::required || found != TaskTarget::none,
                "{}: it holds neither 'labels' nor 'values'; one of them holds the targets", name);
  if (files_.empty()) target_ = found;
  const FeatureFile& first = files_.empty() ? file : files_[0];
  require_input(target_ == found,
                "{}: '{}' holds classes and the other numbers, or one of them nothing, to predict",
                name, printable_path(first.path()));
  require_same_width(file, first);
  for (std::int64_t i = 0; i < file.samples(); ++i) {
    if (!takes_next()) continue;
    const std::int64_t length = file.length(i), kept = std::min(length, sequence_length);
    EncodedSample sample;
    const auto at = static_cast<std::size_t>(i);
    if (target_ == TaskTarget::classes) sample.label = file.labels()[at];
    if (target_ == TaskTarget::value) sample.value = file.values()[at];
    add_features(std::move(sample), length, kept, digest_of(file, i), {files_.size(), i});
    if (length > kept && counts_.truncated.count++ == 0)
      counts_.truncated.first = fmt::format("{}: sample {}", name, i);
  }
  files_.push_back(std::move(file));
}

/// Adds a sample of features, whose target is set. `kept` of its steps are used.
void TaskDataset::add_features(EncodedSample sample, std::int64_t length, std::int64_t kept,
                               const Digest& digest, Source source) {
  sample.example = counts_.examples++;
  sample.labelled = target_ != TaskTarget::none;
  sample.full_length = length;
  samples_.push_back(std::move(sample));
  lengths_.push_back(kept);
  digests_.push_back(digest);
  sources_.push_back(std::move(source));
  ++counts_.samples;
  counts_.tokens += kept;
  counts_.longest = std::max(counts_.longest, length);
}

TaskDataset TaskDataset::read_features(const TaskConfig& task, const ExampleSource& source,
                                       Labelled labelled, const LabelSet& labels,
                                       std::int64_t sequence_length) {
  require(task.kind == TaskKind::features, "read_features: the task is not of features");
  require_input(!source.patterns.empty(), "the task names no files to read");
  // A model that learned samples takes no more rows of a bag.
  const bool bags_alone = learned_bags(task);
  const bool unknown = !task.learned_bags && task.train.empty();
  const std::int64_t longest = bags_alone || unknown ? unlimited : sequence_length;
  if (are_bag_tables(task, source.patterns)) {
    std::vector<Bag> bags = nystrom::read_bags(task, source.patterns, labelled), taken;
    for (std::size_t i = 0; i < bags.size(); ++i)
      if (source.takes(static_cast<std::int64_t>(i))) taken.push_back(std::move(bags[i]));
    return of_bags(task, taken, labelled, labels, {}, longest);
  }
  const std::vector<std::filesystem::path> paths = match_files(source.patterns);
  if (labelled == Labelled::required) refuse_single_bag(task, paths[0]);
  if (bags_alone || is_bag_file(paths[0]))
    return of_bags(task, bags_of_files(paths), labelled, labels, {}, longest);
  TaskDataset data(task);
  std::int64_t number = 0;  // over all files
  for (const auto& path : paths)
    data.add_file(path, labelled, sequence_length, [&] { return source.takes(number++); });
  require_input(data.target_ != TaskTarget::value || task.labels.empty(),
                "{}: holds values, and task.labels names classes; leave task.labels out",
                fmt::join(source.patterns, ", "));
  if (data.target_ != TaskTarget::classes) return data;
  std::int64_t largest = 0;
  for (const EncodedSample& sample : data.samples_) largest = std::max(largest, sample.label);
  require_input(largest > 0 || labels.size() > 0 || !task.labels.empty(),
                "{}: all labels are 0; there is nothing to learn: name the others in task.labels",
                fmt::join(source.patterns, ", "));
  data.labels_ = labels.size() > 0     ? labels
                 : task.labels.empty() ? numbered_labels(std::max<std::int64_t>(largest + 1, 2))
                                       : LabelSet(task.labels);
  for (std::size_t i = 0; i < data.samples_.size(); ++i)
    require_input(data.samples_[i].label < data.labels_.size(),
                  "{}: labels[{}] is {}, but there are {} labels, numbered from 0",
                  printable_path(data.files_[data.sources_[i].file].path()),
                  data.sources_[i].number, data.samples_[i].label, data.labels_.size());
  return data;
}

void TaskDataset::add_bag(const Bag& bag, std::int64_t longest) {
  check_interruption();
  BagFile file(bag.file);
  require_same_width(file, bags_.empty() ? file : bags_[0]);
  EncodedSample sample;
  if (target_ == TaskTarget::value) sample.value = *bag.value;
  if (target_ == TaskTarget::classes) {
    require_input(labels_.size() > 0,
                  "{}: the row has a label, and the model predicts a number; name the column of "
                  "numbers by task.columns.value",
                  bag.place);
    sample.label = labels_.find(*bag.label);
    require_input(sample.label >= 0, "{}: unknown label '{}'{}; {}", bag.place,
                  printable(*bag.label, 80), did_you_mean(*bag.label, labels_.names()),
                  describe(labels_));
  }
  const std::int64_t kept = std::min(file.rows(), longest);
  if (kept < file.rows() && counts_.truncated.count++ == 0) counts_.truncated.first = bag.place;
  add_features(std::move(sample), file.rows(), kept, file.digest(),
               {bags_.size(), 0, bag.id, bag.weight});
  bags_.push_back(std::move(file));
}

TaskDataset TaskDataset::of_bags(const TaskConfig& task, const std::vector<Bag>& bags,
                                 Labelled labelled, const LabelSet& labels,
                                 const std::vector<std::string>& notes, std::int64_t longest) {
  require(task.kind == TaskKind::features, "of_bags: the task is not of features");
  TaskDataset data(task);
  data.skipped_.notes = notes;
  data.labels_ = labels;
  if (labelled == Labelled::required)
    data.target_ = task.columns.value ? TaskTarget::value : TaskTarget::classes;
  for (const Bag& bag : bags) data.add_bag(bag, longest);
  return data;
}

void TaskDataset::read_rows(std::int64_t index, Tensor features) const {
  if (has_bags()) return bag(index).read(features);
  const Source& source = sources_[static_cast<std::size_t>(index)];
  files_[source.file].read(source.number,
                           {features.data<float>(), static_cast<std::size_t>(features.numel())});
}

// ---- What there is ------------------------------------------------------------------------------

std::int64_t TaskDataset::outputs() const {
  if (target_ == TaskTarget::none) return 0;
  if (target_ == TaskTarget::span) return 2;
  return target_ == TaskTarget::value || target_ == TaskTarget::choice ? 1 : labels_.size();
}

const EncodedSample& TaskDataset::sample(std::int64_t index) const {
  require(index >= 0 && index < size(), "task data: sample {} of {}", index, size());
  return samples_[static_cast<std::size_t>(index)];
}

std::int64_t TaskDataset::length(std::int64_t index) const {
  require(index >= 0 && index < size(), "task data: sample {} of {}", index, size());
  return lengths_[static_cast<std::size_t>(index)];
}

const Example& TaskDataset::example(std::int64_t index) const {
  require(index >= 0 && index < std::ssize(kept_), "task data: example {} of {} kept", index,
          kept_.size());
  return kept_[static_cast<std::size_t>(index)];
}

std::int64_t TaskDataset::width() const {
  if (has_bags()) return bags_[0].width();
  return files_.empty() ? 0 : files_[0].width();
}

const std::filesystem::path& TaskDataset::first_file() const {
  require(has_bags() || !files_.empty(), "task data: no file of features");
  return has_bags() ? bags_[0].path() : files_[0].path();
}

const BagFile& TaskDataset::bag(std::int64_t index) const {
  require(index >= 0 && index < std::ssize(bags_), "task data: bag {} of {}", index, bags_.size());
  return bags_[static_cast<std::size_t>(index)];
}

DType TaskDataset::feature_dtype() const {
  const auto is_half = [](const BagFile& bag) { return bag.dtype() == DType::f16; };
  return has_bags() && std::ranges::all_of(bags_, is_half) ? DType::f16 : DType::f32;
}

std::string TaskDataset::sample_name(std::int64_t index) const {
  return has_bags() ? sources_[static_cast<std::size_t>(index)].name
                    : fmt::format("sample {}", index);
}

double TaskDataset::weight(std::int64_t index) const {
  return has_bags() ? sources_[static_cast<std::size_t>(index)].weight : 1;
}

}  // namespace nystrom
