// Stratified folds of whole groups.
#include <algorithm>
#include <map>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/bags.h"

namespace nystrom {
namespace {

/// The bags of a group, or one bag without a group.
struct Group {
  std::string order;  ///< a hash of its name, for an order without a pattern
  std::vector<std::size_t> bags;
  std::map<std::string, std::int64_t> labels;  ///< bags of each label
};

std::vector<Group> groups_of(const std::vector<Bag>& bags) {
  std::map<std::string, Group> groups;
  for (std::size_t i = 0; i < bags.size(); ++i) {
    const bool grouped = !bags[i].group.empty();
    const std::string name = grouped ? "group " + bags[i].group : "bag " + bags[i].id;
    Group& group = groups[name];
    group.order = text_checksum(name);
    group.bags.push_back(i);
    ++group.labels[bags[i].label.value_or("")];
  }
  std::vector<Group> sorted;
  for (auto& [name, group] : groups) sorted.push_back(std::move(group));
  // The largest groups first: small ones level the folds.
  std::ranges::sort(sorted, [](const Group& a, const Group& b) {
    return a.bags.size() != b.bags.size() ? a.bags.size() > b.bags.size() : a.order < b.order;
  });
  return sorted;
}

void require_enough(const std::vector<Group>& groups, std::int64_t folds) {
  std::map<std::string, std::int64_t> counts;
  for (const Group& group : groups)
    for (const auto& [label, bags] : group.labels) ++counts[label];
  for (const auto& [label, count] : counts)
    require_input(count >= folds,
                  "task.folds is {}, but {} only {} groups or single examples; lower it to at most "
                  "{}, or leave the label out",
                  folds,
                  label.empty() ? std::string("there are")
                                : fmt::format("the label '{}' is in", printable(label, 60)),
                  count, count);
}

}  // namespace

std::vector<std::int64_t> fold_numbers(const std::vector<Bag>& bags, std::int64_t folds) {
  require(folds >= 1, "fold_numbers: {} folds", folds);
  const std::vector<Group> groups = groups_of(bags);
  require_enough(groups, folds);
  std::vector<std::map<std::string, std::int64_t>> counts(static_cast<std::size_t>(folds));
  std::vector<std::int64_t> sizes(counts.size()), numbers(bags.size());
  for (const Group& group : groups) {
    // The fold with the fewest bags of the group's labels, then the smallest.
    const auto cost = [&](std::size_t fold) {
      std::int64_t same = 0;
      for (const auto& [label, count] : group.labels) same += count * counts[fold][label];
      return std::pair(same, sizes[fold]);
    };
    std::size_t best = 0;
    for (std::size_t fold = 1; fold < counts.size(); ++fold)
      if (cost(fold) < cost(best)) best = fold;
    for (const auto& [label, count] : group.labels) counts[best][label] += count;
    sizes[best] += std::ssize(group.bags);
    for (const std::size_t bag : group.bags) numbers[bag] = static_cast<std::int64_t>(best);
  }
  return numbers;
}

}  // namespace nystrom
