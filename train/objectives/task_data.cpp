#include "train/objectives/task_data.h"

#include <algorithm>
#include <array>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/examples.h"

namespace nystrom {

TaskReader::TaskReader(TaskConfig task, LabelSet labels, std::shared_ptr<const Tokenizer> tokenizer,
                       const ModelConfig& model, std::int64_t sequence_length)
    : task_(std::move(task)),
      labels_(std::move(labels)),
      tokenizer_(std::move(tokenizer)),
      model_(model),
      sequence_length_(
          std::min(sequence_length, model.longest_sequence().value_or(sequence_length))) {}

std::shared_ptr<const TaskDataset> TaskReader::read(const ExampleSource& source, Labelled labelled,
                                                    bool keep_examples) const {
  if (task_.kind == TaskKind::features)
    return checked(TaskDataset::read_features(task_, source, labelled, labels_, sequence_length_));
  return checked(TaskDataset::read(encoder(), source, labelled,
                                   keep_examples || task_.kind == TaskKind::questions));
}

std::shared_ptr<const TaskDataset> TaskReader::open(const std::vector<Bag>& bags, Labelled labelled,
                                                    const std::vector<std::string>& notes) const {
  return checked(TaskDataset::of_bags(task_, bags, labelled, labels_, notes));
}

std::shared_ptr<const TaskDataset> TaskReader::read_validation(std::int64_t seed,
                                                               bool keep_examples) const {
  if (task_.validation.empty() && task_.kind == TaskKind::features &&
      are_bag_tables(task_, task_.train))
    return open(part_bags(task_, seed).validation, Labelled::required);
  return read(task_sources(task_, seed).validation, Labelled::required, keep_examples);
}

std::shared_ptr<const TaskDataset> TaskReader::from(const std::vector<Example>& examples) const {
  return checked(TaskDataset::from(encoder(), examples, true));
}

std::shared_ptr<const TaskDataset> TaskReader::checked(TaskDataset dataset) const {
  if (task_.kind == TaskKind::features) {
    require_input(dataset.width() == model_.embed_dim,
                  "{}: the features are {} numbers wide, and the model takes {}; a new model takes "
                  "them with model.embed_dim {}",
                  printable_path(dataset.first_file()), dataset.width(),
                  model_.embed_dim.value_or(0), dataset.width());
    const std::int64_t longest = model_.longest_sequence().value_or(dataset.counts().longest);
    const char* remedy = model_.has_kind(AttentionKind::linformer) ? "choose another attention.kind"
                         : model_.fixed_length()
                             ? "set model.attention.semantics to nystrom"
                             : "raise model.max_position_embeddings, of a trained model by nystrom "
                               "extend --length";
    for (std::int64_t i = 0; i < dataset.size() && dataset.has_bags(); ++i)
      require_input(dataset.length(i) <= longest,
                    "{}: {} rows are more than the {} that the model takes, and bags are read "
                    "whole; {}",
                    printable_path(dataset.bag(i).path()), dataset.length(i), longest, remedy);
    return std::make_shared<TaskDataset>(std::move(dataset));
  }
  std::int32_t last_type = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    for (const WrappedIds& row : dataset.sample(i).rows) {
      for (const std::int32_t type : row.type_ids) last_type = std::max(last_type, type);
    }
  }
  // A model without token types (DistilBERT) ignores those of its tokenizer.
  require_input(model_.type_vocab_size == 0 || last_type < model_.type_vocab_size,
                "the task has pairs of texts, of which the second is of token type {}, but "
                "model.type_vocab_size is {}; choose another model",
                last_type, model_.type_vocab_size);
  return std::make_shared<TaskDataset>(std::move(dataset));
}

TaskLoaderOptions loader_options(const RunConfig& config, const Communicator& communicator) {
  return {.batch_size = config.training.batch_size,
          .micro_batch_size = config.training.micro_batch_size,
          .seed = static_cast<std::uint64_t>(config.seed),
          .rank = communicator.rank(),
          .world_size = communicator.size()};
}

std::vector<std::string> output_names(const TaskDataset& dataset) {
  if (dataset.target() == TaskTarget::value) return {"LABEL_0"};
  return dataset.labels().size() > 0 ? dataset.labels().names() : ModelConfig{}.labels;
}

std::string content_checksum(const TaskDataset& dataset) {
  Checksum checksum;
  for (const std::string& name : dataset.labels().names()) checksum.add_counted(name);
  if (dataset.has_bags())
    checksum.add(dataset.digests());  // their features are too many to read twice
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const EncodedSample& sample = dataset.sample(i);
    if (dataset.target() == TaskTarget::span)
      for (const Answer& answer : dataset.example(sample.example).answers)
        checksum.add_counted(answer.text);
    for (const WrappedIds& row : sample.rows) {
      checksum.add(row.ids);
      checksum.add(row.type_ids);
    }
    checksum.add(sample.labels);
    checksum.add(std::array{static_cast<double>(sample.label), sample.value,
                            static_cast<double>(sample.start), static_cast<double>(sample.end),
                            dataset.weight(i)});
    if (dataset.width() == 0 || dataset.has_bags()) continue;
    const Tensor features = Tensor::empty({dataset.length(i), dataset.width()}, DType::f32);
    dataset.read_rows(i, features);
    checksum.update(features.data<float>(), static_cast<std::size_t>(features.bytes()));
  }
  return checksum.hex();
}

std::vector<std::filesystem::path> large_files(
    const std::vector<std::shared_ptr<const TaskDataset>>& datasets) {
  std::vector<std::filesystem::path> files;
  for (const auto& dataset : datasets)
    for (std::int64_t i = 0; dataset->has_bags() && i < dataset->size(); ++i)
      if (dataset->bag(i).is_large()) files.push_back(dataset->bag(i).path());
  return files;
}

}  // namespace nystrom
