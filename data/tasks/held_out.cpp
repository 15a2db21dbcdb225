// The share of a task's training examples that is held out to validate.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/check.h"
#include "data/tasks/bags.h"
#include "data/tasks/feature_file.h"
#include "data/tasks/task_metrics.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

/// Examples that stay together.
struct Group {
  Digest order;  // by the seed
  std::set<std::string> labels;
  std::int64_t size = 0;
};

/// The training examples in groups.
struct Groups {
  std::int64_t seed;
  std::vector<Group> all{};
  std::vector<std::size_t> of_example{};
  std::map<Digest, std::size_t> known{};  // by input

  void add(const Digest& input, const std::vector<std::string>& labels) {
    const auto [place, added] = known.emplace(input, all.size());
    if (added) {
      Checksum order;
      order.update(&seed, sizeof seed);
      order.update(&input, sizeof input);
      all.push_back({order.digest(), {}});
    }
    of_example.push_back(place->second);
    Group& group = all[place->second];
    group.labels.insert(labels.begin(), labels.end());
    ++group.size;
  }
};

/// The part of an example that must not be on both sides.
Digest input_of(const TaskConfig& task, const Example& example) {
  Example part;
  if (task.kind == TaskKind::questions)
    part.text = example.pair.value_or("");
  else if (task.kind == TaskKind::embeddings)
    part.text = example.text;
  else
    return digest_of(example);
  return digest_of(part);
}

/// For each bag the least hash among the bags that it stays with: those of its group, and those
/// with equal features.
std::vector<Digest> inputs_of(const std::vector<Bag>& bags) {
  std::vector<Digest> inputs;
  std::vector<std::size_t> joined(bags.size());  // another bag of the same side, or itself
  std::iota(joined.begin(), joined.end(), std::size_t{0});
  const auto end_of = [&](std::size_t bag) {
    while (joined[bag] != bag) bag = joined[bag] = joined[joined[bag]];
    return bag;
  };
  std::map<Digest, std::size_t> equal;
  std::map<std::string, std::size_t> groups;
  for (std::size_t i = 0; i < bags.size(); ++i) {
    inputs.push_back(BagFile(bags[i].file).digest());
    joined[end_of(equal.emplace(inputs[i], i).first->second)] = i;
    if (!bags[i].group.empty()) joined[end_of(groups.emplace(bags[i].group, i).first->second)] = i;
  }
  std::map<std::size_t, Digest> least;
  for (std::size_t i = 0; i < bags.size(); ++i) {
    Digest& input = least.emplace(end_of(i), inputs[i]).first->second;
    input = std::min(input, inputs[i]);
  }
  for (std::size_t i = 0; i < bags.size(); ++i) inputs[i] = least.at(end_of(i));
  return inputs;
}

void add_features(Groups& groups, const TaskConfig& task, Labelled labelled) {
  if (hold_bags(task, labelled)) {
    const std::vector<Bag> bags = read_bags(task, task.train, labelled);
    const std::vector<Digest> inputs = inputs_of(bags);
    for (std::size_t i = 0; i < bags.size(); ++i)
      groups.add(inputs[i], {bags[i].label.value_or("")});
    return;
  }
  for (const auto& path : match_files(task.train)) {
    refuse_single_bag(task, path);
    const FeatureFile file(path);
    for (std::int64_t i = 0; i < file.samples(); ++i) {
      const bool classes = !file.labels().empty();
      groups.add(digest_of(file, i), {classes ? std::to_string(file.labels()[i]) : ""});
    }
  }
}

Groups read_groups(const TaskConfig& task, std::int64_t seed, Labelled labelled) {
  Groups groups{seed};
  if (task.kind == TaskKind::features) {
    add_features(groups, task, labelled);
    return groups;
  }
  SkippedRows skipped;
  for_each_example(task, task.train, needed_labels(task), skipped, [&](const Example& example) {
    groups.add(input_of(task, example),
               *task.multi_label ? example.labels : std::vector{example.label.value_or("")});
  });
  require_input(!groups.all.empty() || skipped.count == 0, "{}",
                describe_unreadable(task.train, skipped));
  return groups;
}

/// The groups of each label: of the rarest one where an example has several.
std::map<std::string, std::vector<const Group*>> by_label(const std::vector<Group>& groups) {
  std::map<std::string, std::int64_t> counts;
  for (const Group& group : groups)
    for (const std::string& label : group.labels) counts[label] += group.size;
  std::map<std::string, std::vector<const Group*>> classes;
  for (const Group& group : groups) {
    const auto rarest = std::ranges::min_element(group.labels, {}, [&](const std::string& label) {
      return std::pair(counts[label], label);
    });
    classes[rarest == group.labels.end() ? "" : *rarest].push_back(&group);
  }
  return classes;
}

/// How many examples of each class are held out: its share rounded down, and one more of those that
/// lost most until the whole has its share.
std::vector<std::int64_t> quotas(const std::vector<std::int64_t>& sizes, double fraction) {
  const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::int64_t missing = std::llround(fraction * static_cast<double>(all));
  std::vector<std::int64_t> counts;
  for (const std::int64_t size : sizes) {
    counts.push_back(static_cast<std::int64_t>(fraction * static_cast<double>(size)));
    missing -= counts.back();
  }
  const auto lost = [&](std::size_t i) {
    return fraction * static_cast<double>(sizes[i]) - static_cast<double>(counts[i]);
  };
  for (const std::size_t i : indices_by(sizes.size(), lost, std::greater())) {
    if (missing <= 0) break;
    if (counts[i] + 1 >= sizes[i]) continue;
    ++counts[i];
    --missing;
  }
  return counts;
}

/// Whether each example is held out.
std::vector<bool> held_out(const TaskConfig& task, std::int64_t seed, Labelled labelled) {
  const double fraction = *task.validation_fraction;
  const Groups groups = read_groups(task, seed, labelled);
  auto classes = by_label(groups.all);
  std::vector<std::int64_t> sizes;
  for (const auto& [label, members] : classes) {
    sizes.push_back(0);
    for (const Group* group : members) sizes.back() += group->size;
  }
  const std::vector<std::int64_t> counts = quotas(sizes, fraction);
  std::map<std::string, std::int64_t> training;  // groups by label: each keeps one
  for (const Group& group : groups.all)
    for (const std::string& label : group.labels) ++training[label];
  std::vector<bool> chosen(groups.all.size());
  std::size_t place = 0;
  for (auto& [label, members] : classes) {
    std::int64_t left = counts[place++];
    std::ranges::sort(members, {}, &Group::order);
    for (const Group* group : members) {
      const bool last = std::ranges::any_of(
          group->labels, [&](const std::string& own) { return training[own] == 1; });
      if (group->size > left || last) continue;
      left -= group->size;
      for (const std::string& own : group->labels) --training[own];
      chosen[static_cast<std::size_t>(group - groups.all.data())] = true;
    }
  }
  std::vector<bool> held;
  for (const std::size_t group : groups.of_example) held.push_back(chosen[group]);
  if (std::ranges::find(held, true) != held.end()) return held;
  const bool bags = task.kind == TaskKind::features && hold_bags(task, labelled);
  throw InputError(fmt::format(
      "task.validation_fraction {}: of {} examples, {} of them {}, it holds none out: {}; give "
      "more examples or a larger fraction",
      fraction, held.size(), groups.all.size(),
      task.columns.group ? "in different groups"
      : bags             ? "of different ids and features"
                         : "different",
      training.empty() ? "what is alike stays together" : "each label keeps one to train on"));
}

}  // namespace

TaskSources task_sources(const TaskConfig& task, std::int64_t seed, Labelled labelled) {
  std::shared_ptr<const std::vector<bool>> held;
  if (task.validation_fraction)
    held = std::make_shared<const std::vector<bool>>(held_out(task, seed, labelled));
  require_read_columns(task);
  require_input(!has_folds(task),
                "{}: task.{} parts rows of tables and bags, and these are files of samples; set "
                "task.validation_fraction, or name held-out files in task.validation",
                fmt::join(task.train, ", "), task.folds ? "folds" : "splits");
  if (!held) return {task.train, task.validation};
  const auto part = [&](bool second) {
    return [held, second](std::int64_t example) {
      return held->at(static_cast<std::size_t>(example)) == second;
    };
  };
  TaskSources sources{{task.train, part(false)}, {task.train, part(true)}};
  sources.validation.counts_unreadable = false;
  return sources;
}

}  // namespace nystrom
