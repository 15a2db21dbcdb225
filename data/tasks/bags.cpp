#include "data/tasks/bags.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/example_files.h"
#include "data/tasks/feature_file.h"
#include "data/tasks/labels.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* endings[] = {".h5", ".hdf5", ".npy", ".safetensors"};

TableFormat format_of(const std::optional<TaskFormat>& given, const fs::path& file) {
  if (given) return table_format(*given);
  const auto format = table_format_of(file);
  require_input(format.has_value(),
                "{}: its ending is not that of a table; tables and files of features cannot be "
                "mixed",
                printable_path(file));
  return *format;
}

double number_in(const std::string& cell, const std::string& place, const char* what) {
  const auto value = signed_number_of(cell);
  require_input(value && std::isfinite(*value), "{}: the {} '{}' is no finite number{}", place,
                what, printable(cell, 40), comma_hint(cell));
  require_input(std::abs(*value) <= max_target, "{}: the {} '{}' is beyond {:g}; divide the values",
                place, what, printable(cell, 40), max_target);
  return *value;
}

/// "; it has '003.h5'": a file in the folder of `wanted`, which lacks its ending, whose name goes
/// on where `wanted` ends, or the other way round. Empty without one.
std::string what_lies_there(const fs::path& wanted) {
  const std::string stem = wanted.filename().string();
  const fs::path folder = wanted.parent_path();
  std::error_code error;
  require_input(fs::is_directory(folder, error), "there is no folder '{}'", printable_path(folder));
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string(), own = entry.path().stem().string();
    if (name == stem || name.starts_with(stem + ".") || stem.starts_with(own + "."))
      found.insert(name);
  }
  return found.empty() ? "" : fmt::format("; it has '{}'", printable(*found.begin(), 80));
}

/// The file of an id in task.features_folder.
fs::path file_of(const TaskConfig& task, const std::string& id, const std::string& place) {
  std::vector<fs::path> found;
  const fs::path folder = *task.features_folder;
  std::error_code error;
  for (const char* ending : endings)
    if (const fs::path file = folder / (id + ending); fs::exists(file, error))
      found.push_back(file);
  if (found.empty()) {
    const std::string hint = with_context(place + ": task.features_folder",
                                          [&] { return what_lies_there(folder / id); });
    throw InputError(
        fmt::format("{}: task.features_folder '{}' has no file {}.h5, .npy or .safetensors{}",
                    place, printable(*task.features_folder), printable(id, 80), hint));
  }
  require_input(found.size() == 1, "{}: '{}' and '{}' are both there; keep one of them", place,
                printable_path(found[0]), printable_path(found.back()));
  return found[0];
}

void read_table(const TaskConfig& task, const fs::path& table, Labelled labelled,
                std::vector<Bag>& bags) {
  const TaskColumns names = named_columns(task);
  const bool all = labelled == Labelled::required, parts = all || labelled == Labelled::for_parts;
  std::vector<WantedColumn> wanted;
  const auto want = [&](const std::optional<std::string>& column, bool read, bool needed = true) {
    if (!column || !read) return std::optional<std::size_t>();
    wanted.push_back({*column, needed});
    return std::optional(wanted.size() - 1);
  };
  const auto id = want(names.id, true), path = want(names.file, true),
             label = want(names.label, parts, all || task.columns.label),
             value = want(names.value, all || (parts && task.columns.value)),
             group = want(names.group, parts), weight = want(names.weight, all);
  name_options(names, wanted);
  const auto rows = open_rows(table, format_of(task.format, table), *task.header, wanted);
  const std::size_t before = bags.size();
  while (const auto row = rows->next()) {
    Bag& bag = bags.emplace_back();
    bag.place = row->place(printable_path(table));
    const auto cell = [&](std::size_t column) {
      const std::string text = row->cells[column].value_or("");
      require_input(!text.empty(), "{}: the cell of column '{}' is empty", bag.place,
                    printable(wanted[column].name));
      return text;
    };
    bag.id = cell(id ? *id : *path);
    bag.file = path ? table.parent_path() / cell(*path) : file_of(task, bag.id, bag.place);
    std::error_code error;
    require_input(fs::is_regular_file(bag.file, error), "{}: there is no file '{}'", bag.place,
                  printable_path(bag.file));
    if (label && (all || !row->cells[*label].value_or("").empty())) bag.label = cell(*label);
    if (value && all) bag.value = number_in(cell(*value), bag.place, "value");
    if (group || (id && path)) bag.group = cell(group ? *group : *id);
    if (weight) bag.weight = number_in(cell(*weight), bag.place, "weight");
    require_input(bag.weight >= 0, "{}: the weight is {}; expected at least 0", bag.place,
                  bag.weight);
  }
  require_input(bags.size() > before, "{}: there is no row in it", printable_path(table));
}

/// Throws an InputError when two bags have the same file.
void require_distinct_files(const std::vector<Bag>& bags) {
  std::map<std::string, const Bag*> files;
  for (const Bag& bag : bags) {
    const auto [file, new_file] = files.emplace(fs::weakly_canonical(bag.file).string(), &bag);
    require_input(new_file, "{}: '{}' is the file of {} too; name each file once", bag.place,
                  printable_path(bag.file), file->second->place);
  }
}

/// Throws an InputError when bags of different parts have the same group, which is a cell of
/// `what`.
void require_whole_groups(const BagParts& parts, const char* what) {
  std::map<std::string, std::pair<const char*, const Bag*>> first;
  for (const auto& [name, bags] : {std::pair("training", &parts.train),
                                   {"validation", &parts.validation},
                                   {"test", &parts.test}}) {
    for (const Bag& bag : *bags) {
      if (bag.group.empty()) continue;
      const auto& [part, other] = first.emplace(bag.group, std::pair(name, &bag)).first->second;
      require_input(
          part == std::string_view(name),
          "{}: the {} '{}' is in the {} part, and by {} in the {} part too; rows of one {} "
          "belong to one part{}",
          bag.place, what, printable(bag.group, 80), name, other->place, part, what,
          what == std::string_view("id")
              ? "; if it is no patient or slide, leave task.columns.id out, or name another column "
                "in task.columns.group"
              : "");
    }
  }
}

/// The parts that a table with the columns train, val and test names.
BagParts parts_of_split(const fs::path& file, std::vector<Bag> bags) {
  std::map<std::string, std::size_t> places;
  std::vector<std::string> ids;
  for (const Bag& bag : bags) {
    require_input(places.emplace(bag.id, ids.size()).second,
                  "{}: '{}' is in a row before too; task.splits needs ids of one row", bag.place,
                  printable(bag.id, 80));
    ids.push_back(bag.id);
  }
  const auto rows = open_rows(file, format_of(std::nullopt, file), true,
                              {{"train", true}, {"val", true}, {"test", false}});
  BagParts parts;
  std::vector<Bag>* const of_column[] = {&parts.train, &parts.validation, &parts.test};
  std::vector<std::string> part_of(bags.size());
  while (const auto row = rows->next()) {
    const std::string place = row->place(printable_path(file));
    for (std::size_t column = 0; column < 3; ++column) {
      const std::string id = row->cells[column].value_or("");
      if (id.empty()) continue;  // columns end at different rows
      const auto found = places.find(id);
      const bool fraction = id.ends_with(".0");  // of whole numbers beside empty cells, by pandas
      require_input(found != places.end(), "{}: '{}' is in no row of task.train{}", place,
                    printable(id, 80),
                    id == "True" || id == "False"
                        ? "; the columns hold ids, not True and False"
                        : did_you_mean(fraction ? id.substr(0, id.size() - 2) : id, ids));
      std::string& before = part_of[found->second];
      require_input(before.empty(), "{}: '{}' is named again, as at {}", place, printable(id, 80),
                    before);
      before = place;
      of_column[column]->push_back(std::move(bags[found->second]));
    }
  }
  const auto left = std::ranges::count(part_of, "");
  if (left > 0)
    parts.notes.push_back(fmt::format("{}: {} of {} examples are in no part, and are left out",
                                      printable_path(file), left, bags.size()));
  return parts;
}

/// The bags of a group, or of one id.
struct BagGroup {
  std::vector<std::size_t> bags;
  std::map<std::string, std::int64_t> labels;  ///< bags of each label
};
using BagGroups = std::map<std::string, BagGroup>;  // by name

BagGroups groups_of(const TaskConfig& task, const std::vector<Bag>& bags) {
  BagGroups groups;
  for (std::size_t i = 0; i < bags.size(); ++i) {
    // The words are part of the order of folds, which stays what it was.
    BagGroup& group = groups[task.columns.group ? "group " + bags[i].group : "bag " + bags[i].id];
    group.bags.push_back(i);
    ++group.labels[bags[i].label.value_or("")];
  }
  return groups;
}

/// The groups in an order of the attempt, without a pattern. At first the largest come first: small
/// ones level the folds.
std::vector<const BagGroup*> in_order(const BagGroups& groups, std::int64_t attempt) {
  std::vector<std::tuple<std::int64_t, std::string, const BagGroup*>> keyed;
  for (const auto& [name, group] : groups)
    keyed.emplace_back(attempt == 0 ? -std::ssize(group.bags) : 0,
                       text_checksum(attempt == 0 ? name : fmt::format("{} {}", name, attempt)),
                       &group);
  std::ranges::sort(keyed);
  std::vector<const BagGroup*> sorted;
  for (const auto& [size, order, group] : keyed) sorted.push_back(group);
  return sorted;
}

void require_enough(const BagGroups& groups, std::int64_t folds) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, group] : groups)
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

/// Counts of labels in each fold.
using FoldLabels = std::vector<std::map<std::string, std::int64_t>>;

/// The fold of each bag; groups go one after another to the fold that lacks their labels most.
std::vector<std::int64_t> divide(const std::vector<const BagGroup*>& groups, std::size_t all,
                                 FoldLabels& counts) {
  std::vector<std::int64_t> sizes(counts.size()), numbers(all);
  for (const BagGroup* each : groups) {
    const BagGroup& group = *each;
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

/// The part of each bag, 0 … folds − 1: stratified by label, groups whole, each label in each fold,
/// and the same in every call. Throws an InputError for a label of fewer groups than folds, or if
/// no such division is found.
std::vector<std::int64_t> fold_numbers(const TaskConfig& task, const std::vector<Bag>& bags) {
  constexpr std::int64_t attempts = 200;
  const std::int64_t folds = *task.folds;
  const BagGroups groups = groups_of(task, bags);
  require_enough(groups, folds);
  std::set<std::string> labels;
  for (const Bag& bag : bags) labels.insert(bag.label.value_or(""));
  std::string missing;
  for (std::int64_t attempt = 0; attempt < attempts; ++attempt) {
    FoldLabels counts(static_cast<std::size_t>(folds));
    std::vector<std::int64_t> numbers = divide(in_order(groups, attempt), bags.size(), counts);
    const auto lacking = std::ranges::find_if(labels, [&](const std::string& label) {
      return std::ranges::any_of(counts, [&](auto& fold) { return fold[label] == 0; });
    });
    if (lacking == labels.end()) return numbers;
    missing = *lacking;
  }
  throw InputError(fmt::format(
      "task.folds is {}, but no division of the groups is found in which each fold has the label "
      "'{}'; lower it, or leave the label out",
      folds, printable(missing, 60)));
}

BagParts parts_of_folds(const TaskConfig& task, std::vector<Bag> bags) {
  const std::vector<std::int64_t> numbers = fold_numbers(task, bags);
  BagParts parts;
  for (std::size_t i = 0; i < bags.size(); ++i) {
    const bool tests = numbers[i] == task.fold,
               validates = numbers[i] == (task.fold + 1) % *task.folds;
    (tests ? parts.test : validates ? parts.validation : parts.train).push_back(std::move(bags[i]));
  }
  return parts;
}

}  // namespace

bool are_bag_tables(const TaskConfig& task, const std::vector<std::string>& patterns) {
  // A format of tables says nothing of a file of features.
  const bool features = !patterns.empty() &&
                        std::ranges::find(endings, last_ending(patterns[0])) != std::end(endings);
  if (task.format && !features) return task.format != TaskFormat::hdf5;
  return !patterns.empty() && table_format_of(patterns[0]).has_value();
}

bool hold_bags(const TaskConfig& task, Labelled labelled) {
  if (are_bag_tables(task, task.train)) return true;
  if (labelled != Labelled::for_parts) return false;
  for (const auto& patterns : {task.train, task.validation}) {
    if (patterns.empty() || are_bag_tables(task, patterns)) continue;
    // A file of one sample may stand among files of more.
    for (const fs::path& file : match_files(patterns))
      if (!is_bag_file(file, true)) return false;
  }
  return true;
}

bool learned_bags(const TaskConfig& task) {
  return task.learned_bags.value_or(are_bag_tables(task, task.train));
}

std::vector<Bag> bags_of_files(const std::vector<fs::path>& files) {
  std::vector<Bag> bags;
  for (const fs::path& file : files) {
    Bag& bag = bags.emplace_back();
    bag.place = bag.id = printable_path(file);
    bag.file = file;
  }
  return bags;
}

std::vector<Bag> read_bags(const TaskConfig& task, const std::vector<std::string>& patterns,
                           Labelled labelled) {
  require(task.kind == TaskKind::features && task.header, "read_bags: the task is not resolved");
  require_input(!patterns.empty(), "the task names no files to read");
  std::vector<Bag> bags;
  if (labelled == Labelled::for_parts && !are_bag_tables(task, patterns))
    bags = bags_of_files(match_files(patterns));
  else
    for (const fs::path& table : match_files(patterns)) read_table(task, table, labelled, bags);
  require_distinct_files(bags);
  return bags;
}

std::optional<std::int64_t> feature_width(const TaskConfig& task) {
  if (task.train.empty()) return std::nullopt;
  if (are_bag_tables(task, task.train))
    return BagFile(read_bags(task, task.train, Labelled::optional)[0].file).width();
  const fs::path file = match_files(task.train).at(0);
  return is_bag_file(file) ? BagFile(file).width() : FeatureFile(file).width();
}

BagParts part_bags(const TaskConfig& task, std::int64_t seed, Labelled labelled) {
  std::vector<Bag> all = read_bags(task, task.train, labelled);
  std::set<std::string> groups;
  for (const Bag& bag : all) groups.insert(bag.group);
  BagParts parts;
  if (task.folds) {
    parts = parts_of_folds(task, std::move(all));
  } else if (has_folds(task)) {
    parts = parts_of_split(task.splits[static_cast<std::size_t>(task.fold)], std::move(all));
  } else if (task.validation_fraction) {
    const TaskSources sources = task_sources(task, seed, labelled);
    for (std::size_t i = 0; i < all.size(); ++i)
      (sources.train.takes(static_cast<std::int64_t>(i)) ? parts.train : parts.validation)
          .push_back(std::move(all[i]));
  } else {
    parts.validation = read_bags(task, task.validation, labelled);
    for (const Bag& bag : parts.validation) groups.insert(bag.group);
    std::vector<Bag> both = all;
    std::ranges::copy(parts.validation, std::back_inserter(both));
    require_distinct_files(both);
    parts.train = std::move(all);
  }
  if (task.validation.empty()) {
    std::size_t count = 0;
    for (const auto& [name, bags] :
         {std::pair("validation", &parts.validation), {"test", &parts.test}}) {
      const bool some = !bags->empty();
      count += std::erase_if(*bags, [](const Bag& bag) { return bag.weight == 0; });
      require_input(!some || !bags->empty(), "{}: the {} part holds examples of weight 0 alone",
                    fmt::join(task.train, ", "), name);
    }
    if (count > 0)
      parts.notes.push_back(fmt::format(
          "{} examples of weight 0 are left out of the parts that validate and test", count));
  }
  for (const auto& [name, bags] :
       {std::pair("training", &parts.train), {"validation", &parts.validation}})
    require_input(!bags->empty(), "{}: there is no example in the {} part",
                  fmt::join(task.train, ", "), name);
  const char* const what = task.columns.group ? "group" : "id";
  require_whole_groups(parts, what);
  for (const auto& [first, second] : labels_alike({groups.begin(), groups.end()}))
    parts.notes.push_back(
        fmt::format("the {}s '{}' and '{}' differ only in white space, characters without width, "
                    "case, Unicode form or the form of a number, and may be in different parts; if "
                    "they mean the same, correct the table",
                    what, printable(first, 60), printable(second, 60)));
  require_input(std::ranges::any_of(parts.train, [](const Bag& bag) { return bag.weight > 0; }),
                "{}: the weight of every example is 0; there is nothing to learn",
                fmt::join(task.train, ", "));
  return parts;
}

void refuse_single_bag(const TaskConfig& task, const fs::path& file) {
  require_input(!is_bag_file(file),
                "{}: a file of one bag has no label; name the files and their labels in a table, "
                "such as slides.csv with the columns file and label",
                printable_path(file));
  require_input(!learned_bags(task),
                "{}: the model learned bags of a table; name the files of bags and their labels in "
                "a table, such as slides.csv with the columns file and label",
                printable_path(file));
}

LabelSet bag_labels(const TaskConfig& task, const BagParts& parts) {
  if (task.columns.value) return {};
  if (!task.labels.empty()) return LabelSet(task.labels);
  std::set<std::string> names;
  for (const Bag& bag : parts.train) names.insert(*bag.label);
  // The parts of one table have its labels; those of other files must be among them.
  if (task.validation.empty())
    for (const std::vector<Bag>* bags : {&parts.validation, &parts.test})
      for (const Bag& bag : *bags) names.insert(*bag.label);
  constexpr std::size_t most = 1000;
  require_input(
      names.size() >= 2 && names.size() <= most,
      "{}: the column '{}' has {} different labels, expected 2 to {}; a number to predict "
      "stands in task.columns.value",
      fmt::join(task.train, ", "), printable(*named_columns(task).label), names.size(), most);
  return sorted_labels(names);
}

}  // namespace nystrom
